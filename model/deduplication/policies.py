"""Judges whether a topic follows the policies and the setting that switch deduplication (DEDUP-01).

A topic's own policy takes precedence over that of its namespace, and that over the broker's setting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from model.deduplication.topic_observer import TopicView
from model.judgement import Allowed, Broken
from model.operations import Switch

STATUS: Final = {True: "Enabled", False: "Disabled"}
"""The ``deduplicationStatus`` of a topic's stats."""


@dataclass(frozen=True, slots=True)
class OwnPolicyIgnored:
    """A loaded topic keeps its status, although its own policy says otherwise. The broker shows that policy or not."""

    topic: str
    is_shown: bool


def ignored(topic: str, status: str) -> Broken:
    """A topic does not follow a policy for its deduplication: it has this status."""
    return Broken("DEDUP-01", f"a policy changed the deduplication of {topic}, but it is still {status}")


def setting_ignored(status: str) -> Broken:
    """A topic without a policy does not follow its broker's setting: it has this status."""
    what = "the broker's setting changed deduplication, but on a topic without a policy"
    return Broken("DEDUP-01", f"{what} it is still {status}")


def own_ignored(view: TopicView, topic: str, status: str, *, on: bool, is_shown: bool) -> Broken:
    """A topic has this status although its own policy says otherwise."""
    broken = ignored(topic, status)
    if status != STATUS[view.enabled] or view.enabled == on:
        return broken
    return replace(broken, evidence=OwnPolicyIgnored(topic, is_shown)).passing_to(replace(view, own_policy=on))


def created(view: TopicView, topic: str, switch: Switch, *, is_shown: bool) -> Allowed[TopicView] | Broken:
    """A new topic has the status that its own policy says, if it has one."""
    if view.own_policy is None or view.enabled == (switch == "topic-on"):
        return Allowed(view)
    return own_ignored(view, topic, STATUS[view.enabled], on=not view.enabled, is_shown=is_shown)
