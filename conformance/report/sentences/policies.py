"""Policies in words, each operation and outcome by a function that is found by its type."""

from __future__ import annotations

from functools import singledispatch

from model.policy_operations import (
    PolicyAnswer,
    PolicyRead,
    PolicyRequest,
    PolicySet,
    PolicyValue,
    ReadPolicy,
    SetPolicy,
)
from model.service.levels import in_words


@singledispatch
def action(operation: PolicyRequest) -> str:
    """What an administrator asks for, as the rest of a sentence."""
    raise NotImplementedError(type(operation).__name__)


@singledispatch
def outcome_in_words(outcome: PolicyAnswer) -> str:
    """What the broker answered."""
    raise NotImplementedError(type(outcome).__name__)


@action.register
def _(operation: SetPolicy) -> str:
    of = "topic" if operation.level == "topic" else "the namespace of topic"
    policy = f"the policy on {operation.kind} of {of} {operation.topic}"
    return f"removes {policy}" if operation.value is None else f"sets {policy} to {_in_words(operation.value)}"


@outcome_in_words.register
def _(outcome: PolicySet) -> str:
    if not outcome.is_shown:
        return "the broker does not show that"
    in_force = {True: "it is in force", False: "it does not come into force", None: "it may not be in force yet"}
    left = "".join(
        f"; {number} entries of {name} are not evicted" for name, number in (outcome.not_evicted or {}).items()
    )
    held = "; the cursor of deduplication exceeds it" if outcome.is_held_by_system else ""
    default = "" if outcome.default is None else f"; without policies the limit is {_in_words(outcome.default)}"
    return in_force[outcome.is_in_force] + left + held + default


@action.register
def _(operation: ReadPolicy) -> str:
    return f"reads the policy on {operation.kind} of topic {operation.topic} at all levels"


@outcome_in_words.register
def _(outcome: PolicyRead) -> str:
    namespace = f", namespace: {_in_words(outcome.namespace)}" if outcome.has_namespace else ""
    applied = f", applied: {_in_words(outcome.applied)}" if outcome.shows_applied else ""
    return f"topic: {_in_words(outcome.topic)}{namespace}{applied}"


def _in_words(value: PolicyValue | None) -> str:
    return "none" if value is None else in_words(value)
