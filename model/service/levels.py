"""One kind of policies of a topic at the levels of topic, namespace and broker, and which value is in force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from model.policy_operations import PolicyKind, PolicyLevel, PolicySet, PolicyValue, SetPolicy

NO_LIMIT: Final = 0


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
    return ", ".join(value) if isinstance(value, tuple) else str(value) if value else "no limit"
