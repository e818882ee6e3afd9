"""How long a client waits before it asks again for a message that it failed with: each time twice as long (ACK-13)."""

from __future__ import annotations

from typing import TypeVar

from model.deviations import requires
from model.deviations.cursors import NACK_BACKOFF_MISSING
from model.events import RedeliveryTimes
from model.judgement import Allowed, Broken
from model.rules.catalogue import carries

S = TypeVar("S")

EARLY_MS = 20.0
"""How much too early a message may seem to come again: clocks of two processes."""


def delay(first: float, times: int) -> float:
    """How long to wait before a redelivery, after so many others of the same message."""
    return first * (1 << times)


@carries("ACK-13")
def came_back(state: S, told: RedeliveryTimes, known: frozenset[str]) -> Allowed[S] | Broken:
    """A message came again after these delays, and only that message may."""
    if told.others:
        other = told.others[0]
        return Broken(
            "ACK-13", f"{other.business_id} was redelivered, although only {told.message.business_id} was nacked"
        )
    due_ms = [delay(told.first_ms, number) for number in range(len(told.after_ms))]
    if all(after >= due - EARLY_MS for after, due in zip(told.after_ms, due_ms, strict=True)):
        return Allowed(state, ("ACK-13",))
    delays = ", ".join(f"{after:.0f}" for after in told.after_ms)
    because = (
        f"{told.message.business_id} was redelivered {delays} ms after its nacks; the first delay is {due_ms[0]:.0f} ms"
    )
    if any(after < told.first_ms - EARLY_MS for after in told.after_ms):
        return Broken("ACK-13", because)
    return requires(NACK_BACKOFF_MISSING, state, known, because)
