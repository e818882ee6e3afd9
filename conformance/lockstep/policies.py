"""Performs requests about policies, each by a function that is found by the type of the operation.

A broker confirms a policy before it is in force. So a request ends when the broker shows the policy, and a second one
of the same level has come into force: a backlog quota that no topic reaches, whose limit a topic's stats show. Brokers
apply the policies of one level in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from functools import singledispatchmethod
from typing import Final

from conformance.clients.admin.client import NO_SUCH_REQUEST, AdminError
from conformance.clients.admin.http import namespace_of
from conformance.lockstep.world import POLICY_TIMEOUT_S, World
from conformance.wait import wait_until
from model.events import AnyOutcome, Skipped
from model.policy_operations import PolicyKind, PolicyRead, PolicyRequest, PolicySet, PolicyValue, ReadPolicy, SetPolicy
from model.vocabulary import SubscriptionType

OF_TOPIC: Final[Mapping[PolicyKind, str]] = {
    "producers": "maxProducers",
    "consumers": "maxConsumers",
    "consumers of a subscription": "maxConsumersPerSubscription",
    "subscriptions": "maxSubscriptionsPerTopic",
    "message size": "maxMessageSize",
    "subscription types": "subscriptionTypesEnabled",
}
"""The broker's names of the policies of topics, in the paths of the admin API."""
OF_NAMESPACE: Final[Mapping[PolicyKind, str]] = {
    "producers": "maxProducersPerTopic",
    "consumers": "maxConsumersPerTopic",
    "consumers of a subscription": "maxConsumersPerSubscription",
    "subscriptions": "maxSubscriptionsPerTopic",
    "subscription types": "subscriptionTypesEnabled",
}
"""The same of namespaces, which are also the names of the broker's settings."""
APPLIED: Final[Collection[PolicyKind]] = ("producers", "consumers")
"""The kinds of which the admin API shows the policy that applies to a topic, of whatever level."""
UNREACHED: Final = 2**40
"""A backlog quota in bytes, and in seconds, that no topic reaches."""


class Policies:
    """The policies of one example; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(self, world: World, topics: Mapping[str, str]) -> None:
        self._world = world
        self._topics = topics
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
        admin, value = self._world.admin, operation.value
        if operation.level == "topic":
            at, name = topic, OF_TOPIC[operation.kind]
        elif operation.kind not in OF_NAMESPACE:
            return Skipped(f"namespaces have no policy on {operation.kind}")
        elif not self._world.namespaces.is_of_one_topic(namespace_of(topic)):
            return Skipped("the topic shares its namespace")
        else:
            at, name = namespace_of(topic), OF_NAMESPACE[operation.kind]
        admin.set_policy(at, name, value)
        is_shown = wait_until(lambda: _value(admin.policy(at, name)) == value, POLICY_TIMEOUT_S)
        is_in_force = self._is_in_force(at, topic) if is_shown else None
        return PolicySet(self._default(operation.kind), is_shown=is_shown, is_in_force=is_in_force)

    @_perform.register
    def _(self, operation: ReadPolicy, topic: str) -> AnyOutcome:
        admin, of_topic = self._world.admin, OF_TOPIC[operation.kind]
        of_namespace = OF_NAMESPACE.get(operation.kind)
        own = namespace_of(topic)
        there = None if of_namespace is None else _value(admin.policy(own, of_namespace))
        shows_applied = operation.kind in APPLIED
        return PolicyRead(
            topic=_value(admin.policy(topic, of_topic)),
            namespace=there,
            applied=_value(admin.policy(topic, of_topic, is_applied=True)) if shows_applied else None,
            has_namespace=of_namespace is not None,
            shows_applied=shows_applied,
        )

    def _is_in_force(self, at: str, topic: str) -> bool | None:
        """Whether a policy that is set now comes into force within the bound; None: stats do not say."""
        admin, limit = self._world.admin, UNREACHED + next(self._quotas)
        if admin.stats(topic).backlog_quota_bytes is None:
            return None
        if at == topic:
            admin.set_backlog_quota(at, seconds=limit % UNREACHED + 10**8)
            return wait_until(lambda: admin.stats(topic).backlog_quota_s == limit % UNREACHED + 10**8, POLICY_TIMEOUT_S)
        admin.set_backlog_quota(at, size_bytes=limit)
        return wait_until(lambda: admin.stats(topic).backlog_quota_bytes == limit, POLICY_TIMEOUT_S)

    def _default(self, kind: PolicyKind) -> PolicyValue | None:
        """The broker's own setting; None: no limit, or it is not shown."""
        text = (self._world.runtime or {}).get(OF_NAMESPACE.get(kind, ""), "")
        if kind != "subscription types":
            return int(text) if text.isdigit() and int(text) else None
        types = {one.strip() for one in text.strip("[]").split(",")}
        enabled = tuple(one for one in TYPES if one in types)
        return enabled if enabled and enabled != TYPES else None


TYPES: Final[tuple[SubscriptionType, ...]] = ("Exclusive", "Failover", "Key_Shared", "Shared")
"""All types of subscriptions, in the order of their names."""


def _value(shown: int | tuple[str, ...] | None) -> PolicyValue | None:
    """A policy as the model has it: without types there is none."""
    return (tuple(one for one in TYPES if one in shown) or None) if isinstance(shown, tuple) else shown
