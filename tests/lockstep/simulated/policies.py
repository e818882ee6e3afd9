"""Policies on the simulated broker, which limit clients at once."""

from __future__ import annotations

from dataclasses import dataclass

from model.events import AnyOutcome, Skipped
from model.policy_operations import (
    PolicyKind,
    PolicyLevel,
    PolicyRead,
    PolicyRequest,
    PolicySet,
    PolicyValue,
    ReadPolicy,
    SetPolicy,
)
from model.vocabulary import Entry, SubscriptionType

NOT_SIMULATED = frozenset[PolicyKind]({"backlog size", "TTL", "deduplication"})
FRAME_BYTES = 60
"""The metadata of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesVariant:
    """Switches, all off: what a broker may do wrong with policies."""

    admits_one_more: bool = False
    namespace_goes_first: bool = False
    forgotten_by_reload: bool = False
    """After a reload of the topic no policy of its own is in force, although it is shown."""
    removal_ignored: bool = False
    """A policy that is removed stays in force, and is not shown."""
    limits_one_fewer: bool = False
    applied_is_of_namespace: bool = False
    """What is shown to apply to a topic is the policy of its namespace."""


AS_DOCUMENTED = PoliciesVariant()


class SimulatedPolicies:
    """The policies of one example's topics, each as it is shown and as it is in force."""

    def __init__(self, variant: PoliciesVariant) -> None:
        self._variant = variant
        self._own: set[str] = set()
        self._shown: dict[tuple[str, PolicyKind, PolicyLevel], PolicyValue] = {}
        self._in_force: dict[tuple[str, PolicyKind, PolicyLevel], PolicyValue] = {}

    def created(self, topic: str, *, has_own_namespace: bool) -> None:
        """A topic was created."""
        if has_own_namespace:
            self._own.add(topic)

    def perform(self, operation: PolicyRequest) -> AnyOutcome:
        """Perform one request, and return its outcome."""
        if operation.kind in NOT_SIMULATED:
            return Skipped(f"no policies on {operation.kind} are simulated")
        has_namespace = operation.kind != "message size"
        match operation:
            case SetPolicy(topic, kind, value, level):
                if level == "namespace" and not (has_namespace and topic in self._own):
                    return Skipped("the topic shares its namespace")
                for policies in (self._shown, self._in_force):
                    if value is not None:
                        policies[topic, kind, level] = value
                    elif policies is self._shown or not self._variant.removal_ignored:
                        policies.pop((topic, kind, level), None)
                return PolicySet(is_in_force=True)
            case ReadPolicy(topic, kind):
                own, there = (self._shown.get((topic, kind, level)) for level in ("topic", "namespace"))
                first = there if own is None or self._variant.applied_is_of_namespace else own
                return PolicyRead(own, there, first, has_namespace=has_namespace)

    def reloaded(self, topic: str) -> None:
        """A topic was reloaded."""
        if self._variant.forgotten_by_reload:
            self._in_force = {
                (where, kind, level): value
                for (where, kind, level), value in self._in_force.items()
                if (where, level) != (topic, "topic")
            }

    def allows(self, topic: str, kind: PolicyKind, number: int) -> bool:
        """Whether a client may be added to so many."""
        limit = self._of(topic, kind)
        if not isinstance(limit, int) or limit == 0:
            return True
        return number < limit + self._variant.admits_one_more - self._variant.limits_one_fewer

    def allows_type(self, topic: str, kind: SubscriptionType) -> bool:
        """Whether a type of subscriptions is enabled."""
        types = self._of(topic, "subscription types")
        return not isinstance(types, tuple) or kind in types

    def allows_size(self, topic: str, entry: Entry) -> bool:
        """Whether an entry is not too large."""
        limit = self._of(topic, "message size")
        size = sum(max(message.size_bytes, len(message.business_id)) + FRAME_BYTES for message in entry.messages)
        return not isinstance(limit, int) or not 0 < limit < size

    def _of(self, topic: str, kind: PolicyKind) -> PolicyValue | None:
        own, there = (self._in_force.get((topic, kind, level)) for level in ("topic", "namespace"))
        values = (there, own) if self._variant.namespace_goes_first else (own, there)
        return next((value for value in values if value is not None), None)
