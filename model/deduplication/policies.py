"""Judges whether a topic follows the policies and the setting that switch deduplication (DEDUP-01).

A topic's own policy takes precedence over that of its namespace, and that over the broker's setting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from model.deduplication.topic_observer import TopicView
from model.deviations import requires
from model.deviations.deduplication import TOPIC_POLICY_AWAITS_RELOAD, UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY
from model.judgement import Allowed, Broken
from model.operations import Switch

STATUS: Final = {True: "Enabled", False: "Disabled"}
"""The ``deduplicationStatus`` of a topic's stats."""


def ignored(topic: str, status: str) -> Broken:
    """A topic does not follow a policy for its deduplication: it has this status."""
    return Broken("DEDUP-01", f"a policy changed the deduplication of {topic}, but it is still {status}")


def setting_ignored(status: str) -> Broken:
    """A topic without a policy does not follow its broker's setting: it has this status."""
    what = "the broker's setting changed deduplication, but on a topic without a policy"
    return Broken("DEDUP-01", f"{what} it is still {status}")


def own_ignored(
    view: TopicView, topic: str, status: str, *, on: bool, has_unused_subscription: bool
) -> Allowed[TopicView] | Broken:
    """A topic keeps its status although its own policy says otherwise: by a deviation, until it is loaded again."""
    broken = ignored(topic, status)
    if status != STATUS[view.enabled] or view.enabled == on:
        return broken
    name = UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY if has_unused_subscription else TOPIC_POLICY_AWAITS_RELOAD
    return requires(name, replace(view, ignored_policy=on), view.known, broken.because)


def created(view: TopicView, topic: str, switch: Switch) -> Allowed[TopicView] | Broken:
    """A new topic has the status that its own policy says, if it has one."""
    if not view.has_policy or view.enabled == (switch == "topic-on"):
        return Allowed(view)
    return own_ignored(view, topic, STATUS[view.enabled], on=not view.enabled, has_unused_subscription=False)
