"""How the model answers: what is still allowed, or which rule is broken.

An observer holds the states that are possible, is told an operation with its outcome, and answers with the states that
are possible after it. None left: a rule is broken. Which states there are is each document's own module's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

S = TypeVar("S")

Side = Literal["client", "broker"]
"""On which side of the wire something went wrong, where both are systems that a rule is about (document 002)."""


@dataclass(frozen=True, slots=True)
class Allowed(Generic[S]):
    """What was observed is allowed: the state after it, the rules that it exercised, the known deviations it showed."""

    state: S
    exercised: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """What was observed is not allowed: the rule, why in one sentence, and the deviation's name if it has one.

    ``side``: on which side of the wire it happened, where the wire was watched.
    """

    rule: str
    because: str
    deviation: str | None = None
    side: Side | None = None
