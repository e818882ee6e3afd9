"""Judges whether a topic follows the policies and the setting that switch deduplication (DEDUP-01).

A topic's own policy takes precedence over that of its namespace, and that over the broker's setting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from model.deduplication.topic_observer import TopicView
from model.excuses import requires
from model.excuses.deduplication import (
    TOPIC_POLICIES_NOT_READ,
    TOPIC_POLICY_AWAITS_RELOAD,
    UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY,
)
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
    view: TopicView, topic: str, status: str, *, on: bool, is_shown: bool, has_unused_subscription: bool
) -> Allowed[TopicView] | Broken:
    """A topic keeps its status although its own policy says otherwise: by a deviation, until it is loaded again.

    If the broker does not show the policy, that takes another process of the broker.
    """
    broken = ignored(topic, status)
    if status != STATUS[view.enabled] or view.enabled == on:
        return broken
    if not is_shown:
        return requires(TOPIC_POLICIES_NOT_READ, replace(view, unread_policy=on), view.known, broken.because)
    name = UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY if has_unused_subscription else TOPIC_POLICY_AWAITS_RELOAD
    return requires(name, replace(view, ignored_policy=on), view.known, broken.because)


def created(view: TopicView, topic: str, switch: Switch, *, is_shown: bool) -> Allowed[TopicView] | Broken:
    """A new topic has the status that its own policy says, if it has one."""
    if not view.has_policy or view.enabled == (switch == "topic-on"):
        return Allowed(view)
    status, on = STATUS[view.enabled], not view.enabled
    return own_ignored(view, topic, status, on=on, is_shown=is_shown, has_unused_subscription=False)
