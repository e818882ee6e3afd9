"""Policies of topics and namespaces, with their outcomes (SERVE-10).

A new kind is one entry of :data:`PolicyKind` and of each table that a test holds against it: what it refuses
(:mod:`model.service.policies`), the broker's names of it (:mod:`conformance.lockstep.policies`), and its words
(:mod:`conformance.report.sentences.policies`). Machines draw all kinds from :mod:`stateful.service.policies`.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import Struct

from model.vocabulary import Operation, Outcome, SubscriptionType

PolicyKind = Literal[
    "producers",
    "consumers",
    "consumers of a subscription",
    "subscriptions",
    "message size",
    "subscription types",
    "backlog size",
    "dispatch rate",
    "subscription dispatch rate",
    "publish rate",
    "TTL",
    "deduplication",
]
"""What a policy limits: how many of these a topic may have at a time, the bytes of a message or of the backlog, which
types of subscriptions consumers may have, or how many messages a second. The last two are only read by these requests:
operations of their own set them."""

PolicyLevel = Literal["namespace", "topic"]
"""Where a policy is set. A topic's own policy goes before that of its namespace, and that before the broker's."""

Action = Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"]
"""What a broker does about a backlog that exceeds its quota: refuse producers, in two ways, or evict messages."""

EVICTS: Final[Action] = "consumer_backlog_eviction"


class Quota(Struct, frozen=True):
    """How many bytes the backlog of a topic may have, and what the broker does about one that has more."""

    limit: int
    action: Action


PolicyValue = int | tuple[SubscriptionType, ...] | Quota
"""A limit (0: none, whatever the other levels say), the types that are enabled in the order of their names, or what the
backlog may be."""


class SetPolicy(Operation, frozen=True):
    """Set a policy of a topic, or of its namespace if it is of this topic only; None: remove it. PolicySet."""

    request: ClassVar = "set policy"
    may_be_cause: ClassVar = True

    topic: str
    kind: PolicyKind
    value: PolicyValue | None
    level: PolicyLevel = "topic"


class PolicySet(Outcome, frozen=True, omit_defaults=True):
    """The broker accepted it. ``default``: its own setting, which is in force without policies (None: no limit).

    ``is_shown``: the broker shows it within the bound. ``is_in_force``: another policy that was set after it is in
    force within the bound, by the topic's stats; None: stats of this release do not say. Of a quota on the backlog,
    ``not_evicted``: how many unacknowledged entries each subscription has although they should be evicted, but for the
    last one (None: nobody waited for that); ``is_held_by_system``: the cursor of deduplication alone exceeds it within
    the bound.
    """

    default: PolicyValue | None = None
    is_shown: bool = True
    is_in_force: bool | None = None
    not_evicted: dict[str, int] | None = None
    is_held_by_system: bool = False


class ReadPolicy(Operation, frozen=True):
    """Read a policy at all levels. PolicyRead."""

    request: ClassVar = "read policy"
    is_look: ClassVar = True

    topic: str
    kind: PolicyKind


class PolicyRead(Outcome, frozen=True, omit_defaults=True):
    """The topic's own policy, that of its namespace, and the one that applies to the topic, as the broker shows them.

    ``has_namespace``: namespaces have policies of this kind. ``shows_applied``: the admin API shows what applies.
    """

    topic: PolicyValue | None = None
    namespace: PolicyValue | None = None
    applied: PolicyValue | None = None
    has_namespace: bool = True
    shows_applied: bool = True


PolicyRequest = SetPolicy | ReadPolicy
"""Every request about policies."""

PolicyAnswer = PolicySet | PolicyRead
"""Every outcome that only these have."""
