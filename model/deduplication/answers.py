"""Assigns answers to entries where the protocol is ambiguous.

Several entries with one sequence id may be in flight. A send receipt contains only the lowest id of its entry, an error
only the highest. The broker's answers may overtake each other, and a missing answer may belong to any entry. So the
answers to one send are a multiset, and each consistent assignment is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from model.deduplication.producer_state import ProducerStates
from model.events import Answer, Duplicate, Refused, Stored, Unknown
from model.vocabulary import Entry

P = TypeVar("P", bound=Collection[object])
"""Possible states of a producer, of any representation."""

Receive = Callable[[P, Entry, Answer], P]
"""The possible states after an entry and its answer; empty if the answer is not allowed."""


def could_be_for(answer: Answer, named: Entry, entry: Entry) -> bool:
    """Whether an answer that was assigned to ``named`` may belong to ``entry``."""
    match answer:
        case Stored() | Duplicate():
            return named.lowest == entry.lowest
        case Refused():
            return named.highest == entry.highest
        case Unknown():
            return True
        case _:
            assert_never(answer)


def _may_be_for(bag: Collection[tuple[Entry, Answer]], entries: Collection[Entry]) -> bool:
    """Whether each of these answers may belong to one of these entries: of many sends, most assignments fail here."""
    lowest, highest = {entry.lowest for entry in entries}, {entry.highest for entry in entries}

    def is_left(named: Entry, answer: Answer) -> bool:
        match answer:
            case Stored() | Duplicate():
                return named.lowest in lowest
            case Refused():
                return named.highest in highest
            case Unknown():
                return True
            case _:
                assert_never(answer)

    return all(is_left(named, answer) for named, answer in bag)


def hand_out(
    states: P, entries: Sequence[Entry], answers: Sequence[Answer], take: Receive[P]
) -> Iterator[tuple[P, tuple[Answer, ...]]]:
    """Every consistent assignment of the answers, with the possible states after it."""
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
        left = bag[:place] + bag[place + 1 :]
        if answer in tried or not could_be_for(answer, named, entry) or not _may_be_for(left, rest):
            continue
        tried.add(answer)
        after = take(states, entry, answer)
        if after:
            yield from _hand_out(after, rest, left, take, (*way, answer))


def furthest(
    states: ProducerStates, entries: Sequence[Entry], answers: Sequence[Answer], take: Receive[ProducerStates]
) -> tuple[ProducerStates, Entry, Answer]:
    """If no assignment is consistent: the first impossible answer of the one that gets furthest, with the possible
    states before it and its entry."""
    end = _dead_end(states, entries, tuple(zip(entries, answers, strict=True)), take)
    assert end is not None, "the answers in their order are an assignment, so it has a dead end"
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
    """The furthest dead end; of several, the one whose assignment follows the order of the answers most."""
    entry, rest = entries[0], entries[1:]
    ends: list[_DeadEnd] = []
    tried: set[Answer] = set()
    for place, (named, answer) in enumerate(bag):
        left = bag[:place] + bag[place + 1 :]
        if answer in tried or not could_be_for(answer, named, entry) or not _may_be_for(left, rest):
            continue
        tried.add(answer)
        after = take(states, entry, answer)
        if not after:
            ends.append(_DeadEnd(states, entry, answer, len(entries)))
        elif (end := _dead_end(after, rest, left, take)) is not None:
            ends.append(end)
    return min(ends, key=lambda end: end.left, default=None)
