"""Judges holes between acknowledgments (ACK-21), each operation by a function that is found by its type.

An unload persists the first ranges of acknowledged messages, up to the broker's limit; a kill leaves what was persisted
before it. What was to be persisted is not delivered again, and what nobody acknowledged is delivered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import pairwise

from model.events import AnyOutcome
from model.example.state import Example, Judgement
from model.hole_operations import UNKNOWN, HoleOperation, HolesMade, HolesReceived, MakeHoles, ReceiveHoles
from model.holes import Holes, bits_of, numbers_of
from model.judgement import Allowed, Broken, overdue
from model.rules.catalogue import carries


@dataclass(frozen=True, slots=True)
class WrongHoles:
    """Evidence: of a topic's messages these are ``redelivered`` although they are acknowledged, and these ``missed``
    although they are not."""

    topic: str
    redelivered: int
    missed: int


@carries("ACK-21")
def judge(state: Example, operation: HoleOperation, outcome: AnyOutcome) -> Judgement:
    """What is acknowledged, and what is received."""
    return _judged(operation, state, outcome)


def reloaded(state: Example, topics: Collection[str], *, is_killed: bool) -> Example:
    """These topics were loaded again, and the ones beside them."""
    after = {
        topic: (one.killed() if is_killed else one.unloaded()) if topic in topics else one
        for topic, one in state.holes.items()
    }
    return replace(state, holes=after)


def _of(state: Example, topic: str) -> Holes:
    return state.holes.get(topic, Holes(state.consumption.topics[topic].persisting.persisted_ranges))


@singledispatch
def _judged(operation: HoleOperation, state: Example, outcome: AnyOutcome) -> Judgement:
    raise NotImplementedError(type(operation).__name__)


@_judged.register
def _(operation: MakeHoles, state: Example, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, HolesMade):
        return Allowed(state)
    acked = bits_of(range(operation.first, sum(outcome.ledgers), operation.stride))
    before = _of(state, operation.topic)
    after = before.acknowledging(acked, outcome.ledgers, is_persisted=outcome.is_persisted)
    return Allowed(state.with_holes(operation.topic, after))


@_judged.register
def _(operation: ReceiveHoles, state: Example, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, HolesReceived):
        return Allowed(state)
    holes = _of(state, operation.topic)
    received = [number for one in outcome.received for number in one]
    if UNKNOWN in received:
        return Broken("ACK-06", f"a message beside topic {operation.topic} was delivered, but it was never stored")
    again = next((late for early, late in pairwise(received) if late <= early), None)
    if again is not None:
        because = f"message {again} beside topic {operation.topic} was delivered to one consumer twice, or out of order"
        return Broken("ACK-12", because)
    if outcome.is_cut_short:
        because = f"the broker dispatches nothing after {len(received)} messages beside topic {operation.topic}"
        return overdue(Broken("SERVE-03", because))
    left = bits_of(received)
    acked = ((1 << sum(outcome.ledgers)) - 1) & ~left
    wrong = WrongHoles(operation.topic, redelivered=left & holes.surely, missed=acked & ~holes.acked)
    after = state.with_holes(operation.topic, holes.seen(acked, outcome.ledgers))
    if not wrong.redelivered and not wrong.missed:
        return Allowed(after, ("ACK-21",) if holes.is_reloaded and holes.ranges else ("ACK-01",))
    rule = "ACK-21" if holes.is_reloaded else "ACK-01"
    return Broken(rule, _words(operation.topic, holes, wrong), evidence=wrong).passing_to(after)


def _words(topic: str, holes: Holes, wrong: WrongHoles) -> str:
    of = f"of {holes.acked.bit_count()} acknowledged messages beside topic {topic}, in {holes.ranges} ranges"
    because = []
    if wrong.redelivered:
        first = numbers_of(wrong.redelivered)[0]
        because.append(f"{of}, {wrong.redelivered.bit_count()} are delivered again, first {first}")
    if wrong.missed:
        first = numbers_of(wrong.missed)[0]
        because.append(f"{wrong.missed.bit_count()} messages that nobody acknowledged are not delivered, first {first}")
    return "; ".join(because)
