"""Performs requests about policies, each by a function that is found by the type of the operation.

A broker confirms a policy before it is in force. So a request ends when the broker shows the policy, and a second one
of the same level has come into force: a backlog quota that no topic reaches, whose limit a topic's stats show. Brokers
apply the policies of one level in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any, Final

from msgspec import structs

from conformance.clients.admin.client import NO_SUCH_REQUEST, AdminError
from conformance.clients.admin.http import namespace_of
from conformance.lockstep.cursors.admin import WORK_TIMEOUT_S
from conformance.lockstep.cursors.expiry import LONGEST_PERIOD_S, Expiry
from conformance.lockstep.world import POLICY_TIMEOUT_S, World
from conformance.wait import wait_until
from model.events import AnyOutcome, Skipped
from model.policy_operations import (
    EVICTS,
    PolicyKind,
    PolicyRead,
    PolicyRequest,
    PolicySet,
    PolicyValue,
    Quota,
    ReadPolicy,
    SetPolicy,
)
from model.service.levels import LITTLE_BYTES
from model.vocabulary import SubscriptionType


@dataclass(frozen=True, slots=True)
class Naming:
    """The broker's names of one kind of policies, in the paths of the admin API, and its values there.

    ``namespace``: at the level of the namespace, which is also the name of the broker's setting; None: namespaces have
    none. ``shows_applied``: the admin API shows the policy that applies to a topic, of whatever level.
    """

    topic: str
    namespace: str | None = None
    shows_applied: bool = False
    encoded: Callable[[PolicyValue], object] = lambda value: value
    decoded: Callable[[Any], PolicyValue | None] = lambda shown: shown


def _types(shown: Sequence[str] | None) -> PolicyValue | None:
    """Without types there is no policy."""
    return tuple(one for one in TYPES if one in (shown or ())) or None


def _quota(shown: Mapping[str, Any] | None) -> PolicyValue | None:
    """Quotas that no topic reaches are the suite's probes."""
    quota = (shown or {}).get(OF_SIZE, {})
    limit = quota.get("limitSize", quota.get("limit", -1))
    return Quota(limit, quota["policy"]) if 0 <= limit < UNREACHED else None


def _rate(name: str, of: str, *, shows_applied: bool = True) -> Naming:
    """Messages a second; releases differ in how they show that there is no limit."""
    in_messages, in_bytes = f"{of}ThrottlingRateInMsg", f"{of}ThrottlingRateInByte"
    period = {} if of == "publish" else {"relativeToPublishRate": False, "ratePeriodInSecond": 1}

    def decoded(shown: Mapping[str, int] | None) -> PolicyValue | None:
        limit = (shown or {}).get(in_messages, 0)
        return limit if limit > 0 else None

    return Naming(
        name,
        name,
        shows_applied=shows_applied,
        encoded=lambda value: {in_messages: value, in_bytes: -1, **period},
        decoded=decoded,
    )


OF_SIZE: Final = "destination_storage"
TYPES: Final[tuple[SubscriptionType, ...]] = ("Exclusive", "Failover", "Key_Shared", "Shared")
"""All types of subscriptions, in the order of their names."""
NAMING: Final[Mapping[PolicyKind, Naming]] = {
    "producers": Naming("maxProducers", "maxProducersPerTopic", shows_applied=True),
    "consumers": Naming("maxConsumers", "maxConsumersPerTopic", shows_applied=True),
    "consumers of a subscription": Naming("maxConsumersPerSubscription", "maxConsumersPerSubscription"),
    "subscriptions": Naming("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic"),
    "message size": Naming("maxMessageSize"),
    "subscription types": Naming("subscriptionTypesEnabled", "subscriptionTypesEnabled", decoded=_types),
    "backlog size": Naming("backlogQuotaMap", "backlogQuotaMap", decoded=_quota),
    "dispatch rate": _rate("dispatchRate", "dispatch"),
    "subscription dispatch rate": _rate("subscriptionDispatchRate", "dispatch"),
    "publish rate": _rate("publishRate", "publish", shows_applied=False),
    "TTL": Naming("messageTTL", "messageTTL", shows_applied=True),
    "deduplication": Naming(
        "deduplicationEnabled", shows_applied=True, decoded=lambda shown: None if shown is None else int(shown)
    ),
}
UNREACHED: Final = 2**40
"""A backlog quota in bytes, and in seconds, that no topic reaches."""
NO_QUOTA: Final = -1
"""How brokers show that there is none."""
DEDUPLICATION: Final = "pulsar.dedup"
"""The cursor with the snapshot of deduplication."""


class Policies:
    """The policies of one example; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(self, world: World, topics: Mapping[str, str], expiry: Expiry) -> None:
        self._world = world
        self._topics = topics
        self._expiry = expiry
        self._quotas = itertools.count(1)

    def perform(self, operation: PolicyRequest) -> AnyOutcome:
        """Carry out one request and return the outcome."""
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        try:
            return self._perform(operation, topic)
        except AdminError as error:
            if error.status not in NO_SUCH_REQUEST:
                raise
            return Skipped(f"this release has no such policy on {operation.kind}")

    @singledispatchmethod
    def _perform(self, operation: PolicyRequest, topic: str) -> AnyOutcome:
        raise NotImplementedError(type(operation).__name__)

    @_perform.register
    def _(self, operation: SetPolicy, topic: str) -> AnyOutcome:
        admin, value, naming = self._world.admin, operation.value, NAMING[operation.kind]
        at, name = topic, naming.topic
        if operation.level == "namespace":
            if naming.namespace is None:
                return Skipped(f"namespaces have no policy on {operation.kind}")
            if not self._world.namespaces.is_of_one_topic(namespace_of(topic)):
                return Skipped("the topic shares its namespace")
            at, name = namespace_of(topic), naming.namespace
        if operation.kind == "backlog size":
            self._expiry.changing(topic)
        if isinstance(value, Quota):
            admin.set_backlog_quota(at, value.action, size_bytes=value.limit)
        elif operation.kind == "backlog size":
            admin.remove_backlog_quota(at)
        else:
            admin.set_policy(at, name, None if value is None else naming.encoded(value))
        is_shown = wait_until(lambda: naming.decoded(admin.policy(at, name)) == value, POLICY_TIMEOUT_S)
        is_in_force = self._is_in_force(operation, at, topic) if is_shown else None
        done = PolicySet(self._default(operation.kind), is_shown=is_shown, is_in_force=is_in_force)
        if operation.kind != "backlog size" or not is_in_force or self._period_s > LONGEST_PERIOD_S:
            return done
        # With a quota of another type the topic shows none of its namespace as applied to it.
        own = naming.decoded(admin.policy(topic, naming.topic))
        applied = own or naming.decoded(admin.policy(namespace_of(topic), naming.namespace or name))
        if not isinstance(applied, Quota) or applied.limit > LITTLE_BYTES:
            return done
        if applied.action == EVICTS:
            return structs.replace(done, not_evicted=self._expiry.await_eviction(topic, self._period_s))
        return structs.replace(done, is_held_by_system=not wait_until(lambda: self._is_taken(topic), self._timeout_s))

    @_perform.register
    def _(self, operation: ReadPolicy, topic: str) -> AnyOutcome:
        admin, naming = self._world.admin, NAMING[operation.kind]

        def read(at: str, name: str, *, is_applied: bool = False) -> PolicyValue | None:
            return naming.decoded(admin.policy(at, name, is_applied=is_applied))

        return PolicyRead(
            topic=read(topic, naming.topic),
            namespace=None if naming.namespace is None else read(namespace_of(topic), naming.namespace),
            applied=read(topic, naming.topic, is_applied=True) if naming.shows_applied else None,
            has_namespace=naming.namespace is not None,
            shows_applied=naming.shows_applied,
        )

    def _is_in_force(self, operation: SetPolicy, at: str, topic: str) -> bool | None:
        """Whether a policy that is set now comes into force within the bound; None: stats do not say."""
        admin, limit = self._world.admin, UNREACHED + next(self._quotas)
        if admin.stats(topic).backlog_quota_bytes is None:
            return None
        if at == topic:
            admin.set_backlog_quota(at, EVICTS, seconds=limit % UNREACHED + 10**8)
            return wait_until(lambda: admin.stats(topic).backlog_quota_s == limit % UNREACHED + 10**8, POLICY_TIMEOUT_S)
        if operation.kind == "backlog size":
            return self._is_quota_in_force(operation.value, topic)
        admin.set_backlog_quota(at, EVICTS, size_bytes=limit)
        return wait_until(lambda: admin.stats(topic).backlog_quota_bytes == limit, POLICY_TIMEOUT_S)

    def _is_quota_in_force(self, value: PolicyValue | None, topic: str) -> bool | None:
        """Whether a quota of the namespace comes into force; None: the topic has one of its own."""
        admin, naming = self._world.admin, NAMING["backlog size"]
        if naming.decoded(admin.policy(topic, naming.topic)) is not None:
            return None
        limit = value.limit if isinstance(value, Quota) else NO_QUOTA
        return wait_until(lambda: admin.stats(topic).backlog_quota_bytes == limit, POLICY_TIMEOUT_S)

    def _is_taken(self, topic: str) -> bool:
        """Whether the snapshot of deduplication is of the last entry, if there is one."""
        stats = self._world.admin.internal_stats(topic)
        cursor = stats.cursors.get(DEDUPLICATION)
        return cursor is None or cursor.mark_delete_position == stats.last_confirmed_entry

    @property
    def _period_s(self) -> float:
        """How often the broker compares backlogs with their quotas."""
        return self._world.traits.quota_period_s

    @property
    def _timeout_s(self) -> float:
        return self._period_s + WORK_TIMEOUT_S

    def _default(self, kind: PolicyKind) -> PolicyValue | None:
        """The broker's own setting; None: no limit, or it is not shown."""
        text = (self._world.runtime or {}).get(NAMING[kind].namespace or "", "")
        if kind != "subscription types":
            return int(text) if text.isdigit() and int(text) else None
        types = {one.strip() for one in text.strip("[]").split(",")}
        enabled = tuple(one for one in TYPES if one in types)
        return enabled if enabled and enabled != TYPES else None
