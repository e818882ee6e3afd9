"""One kind of policies of a topic at the levels of topic, namespace and broker, and which value is in force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from model.policy_operations import EVICTS, PolicyKind, PolicyLevel, PolicySet, PolicyValue, Quota, SetPolicy

NO_LIMIT: Final = 0
LITTLE_BYTES: Final = 10
"""Fewer than any entry has."""
MANY_BYTES: Final = 2**30
"""More than any topic has."""


class PolicyId(NamedTuple):
    """A topic and a kind of policies."""

    topic: str
    kind: PolicyKind


@dataclass(frozen=True, slots=True)
class Policy:
    """One kind of policies of one topic at all levels; ``former``: values that may still be in force."""

    topic: PolicyValue | None = None
    namespace: PolicyValue | None = None
    default: PolicyValue | None = None
    former: frozenset[PolicyValue] = frozenset()

    @property
    def latest(self) -> PolicyValue:
        """The value of the first level that has one."""
        return next((one for one in (self.topic, self.namespace, self.default) if one is not None), NO_LIMIT)

    @property
    def in_force(self) -> frozenset[PolicyValue]:
        """The values of which one is in force."""
        return self.former | {self.latest}

    @property
    def refusing(self) -> frozenset[Quota]:
        """The quotas that may be in force and refuse producers."""
        return frozenset(one for one in self.in_force if isinstance(one, Quota) and one.action != EVICTS)

    @property
    def evicting(self) -> frozenset[Quota]:
        """The quotas that may be in force and evict any backlog but its last entry."""
        quotas = (one for one in self.in_force if isinstance(one, Quota) and one.action == EVICTS)
        return frozenset(one for one in quotas if one.limit <= LITTLE_BYTES)

    def of(self, level: PolicyLevel) -> PolicyValue | None:
        return self.topic if level == "topic" else self.namespace

    def changed(self, operation: SetPolicy, outcome: PolicySet) -> Policy:
        """The same after a request that was accepted."""
        former = frozenset() if outcome.is_in_force else self.in_force
        after = replace(self, default=outcome.default, former=former)
        if operation.level == "topic":
            return replace(after, topic=operation.value)
        return replace(after, namespace=operation.value)

    def __str__(self) -> str:
        """The value in force, and the level where it was set."""
        level = "topic" if self.topic is not None else "namespace" if self.namespace is not None else "broker"
        return f"{in_words(self.latest)} (set at the level of the {level})"


def in_words(value: PolicyValue) -> str:
    match value:
        case Quota(limit, action):
            return f"{limit} bytes ({action})"
        case tuple():
            return ", ".join(value)
        case _:
            return str(value) if value else "no limit"
