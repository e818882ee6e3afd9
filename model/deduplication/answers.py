"""Which answer belongs to which entry, where the wire does not tell.

Several entries may be in flight with one sequence id. A receipt names the lowest id of its entry, an error the highest,
and neither says more; the broker's answers overtake one another; and an answer that never came may have belonged to any
of them. So the answers to one send are a bag, and every way to hand them out that is possible at all is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from model.deduplication.producer_state import ProducerStates
from model.events import Answer, Duplicate, Refused, Stored, Unknown
from model.vocabulary import Entry

P = TypeVar("P", bound=Collection[object])
"""States of a producer that are possible, of whatever kind."""

Receive = Callable[[P, Entry, Answer], P]
"""What is possible after an entry was sent and answered; empty where it is not."""


def could_be_for(answer: Answer, named: Entry, entry: Entry) -> bool:
    """Whether an answer that names one entry could as well be another one's."""
    match answer:
        case Stored() | Duplicate():
            return named.lowest == entry.lowest
        case Refused():
            return named.highest == entry.highest
        case Unknown():
            return True
        case _:
            assert_never(answer)


def hand_out(
    states: P, entries: Sequence[Entry], answers: Sequence[Answer], take: Receive[P]
) -> Iterator[tuple[P, tuple[Answer, ...]]]:
    """Every way of handing out the answers that leaves something possible: what is possible then, and the way."""
    yield from _hand_out(states, entries, tuple(zip(entries, answers, strict=True)), take, ())


def _hand_out(
    states: P,
    entries: Sequence[Entry],
    bag: tuple[tuple[Entry, Answer], ...],
    take: Receive[P],
    way: tuple[Answer, ...],
) -> Iterator[tuple[P, tuple[Answer, ...]]]:
    if not entries:
        yield states, way
        return
    entry, rest = entries[0], entries[1:]
    tried: set[Answer] = set()
    for place, (named, answer) in enumerate(bag):
        if answer in tried or not could_be_for(answer, named, entry):
            continue
        tried.add(answer)
        after = take(states, entry, answer)
        if after:
            yield from _hand_out(after, rest, bag[:place] + bag[place + 1 :], take, (*way, answer))


def furthest(
    states: ProducerStates, entries: Sequence[Entry], answers: Sequence[Answer], take: Receive[ProducerStates]
) -> tuple[ProducerStates, Entry, Answer]:
    """Where no way of handing out the answers is possible: the first impossible answer on the way that gets furthest.

    With it, what was possible before it, and the entry that it was for.
    """
    end = _dead_end(states, entries, tuple(zip(entries, answers, strict=True)), take)
    assert end is not None, "as the answers came they can be handed out, so there is a dead end on that way"
    return end.states, end.entry, end.answer


@dataclass(frozen=True, slots=True)
class _DeadEnd:
    states: ProducerStates
    entry: Entry
    answer: Answer
    left: int


def _dead_end(
    states: ProducerStates,
    entries: Sequence[Entry],
    bag: tuple[tuple[Entry, Answer], ...],
    take: Receive[ProducerStates],
) -> _DeadEnd | None:
    """The dead end that is furthest from here; of several the one whose answers were handed out most as they came."""
    entry, rest = entries[0], entries[1:]
    ends: list[_DeadEnd] = []
    tried: set[Answer] = set()
    for place, (named, answer) in enumerate(bag):
        if answer in tried or not could_be_for(answer, named, entry):
            continue
        tried.add(answer)
        after = take(states, entry, answer)
        if not after:
            ends.append(_DeadEnd(states, entry, answer, len(entries)))
        elif (end := _dead_end(after, rest, bag[:place] + bag[place + 1 :], take)) is not None:
            ends.append(end)
    return min(ends, key=lambda end: end.left, default=None)
