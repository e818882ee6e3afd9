"""Redelivery backoff: the delay before the redelivery request doubles with each nack of a message (ACK-13)."""

from __future__ import annotations

from typing import TypeVar

from model.events import RedeliveryTimes
from model.judgement import Allowed, Broken
from model.rules.catalogue import carries

S = TypeVar("S")

EARLY_MS = 20.0
"""How much too early a redelivery may seem, because two processes have two clocks."""


def delay(first: float, times: int) -> float:
    """The delay before a redelivery, after so many redeliveries of the same message."""
    return first * (1 << times)


@carries("ACK-13")
def redelivered(state: S, times: RedeliveryTimes) -> Allowed[S] | Broken:
    """The nacked message was redelivered after these delays, and no other message was."""
    if times.others:
        other = times.others[0]
        return Broken(
            "ACK-13", f"{other.business_id} was redelivered, although only {times.message.business_id} was nacked"
        )
    due_ms = [delay(times.first_ms, number) for number in range(len(times.after_ms))]
    if all(after >= due - EARLY_MS for after, due in zip(times.after_ms, due_ms, strict=True)):
        return Allowed(state, ("ACK-13",))
    delays = ", ".join(f"{after:.0f}" for after in times.after_ms)
    what = f"{times.message.business_id} was redelivered {delays} ms after its nacks"
    because = f"{what}; the first delay is {due_ms[0]:.0f} ms"
    return Broken("ACK-13", because, evidence=times).passing_to(state)
