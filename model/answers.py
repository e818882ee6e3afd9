"""Which answer belongs to which entry, where the wire does not tell.

Several entries may be in flight with one sequence id. A receipt names the lowest id of its entry, an error the highest,
and neither says more; the broker's answers overtake one another; and an answer that never came may have belonged to any
of them. So the answers to one send are a bag, and every way to hand them out that is possible at all is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from model.dedup import Lanes
from model.operations import Answer, Duplicate, Entry, Refused, Stored, Unknown

Take = Callable[[Lanes, Entry, Answer], Lanes]
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
    lanes: Lanes, entries: Sequence[Entry], answers: Sequence[Answer], take: Take
) -> Iterator[tuple[Lanes, tuple[Answer, ...]]]:
    """Every way of handing out the answers that leaves something possible: what is possible then, and the way."""
    yield from _hand_out(lanes, entries, tuple(zip(entries, answers, strict=True)), take, ())


def _hand_out(
    lanes: Lanes,
    entries: Sequence[Entry],
    bag: tuple[tuple[Entry, Answer], ...],
    take: Take,
    way: tuple[Answer, ...],
) -> Iterator[tuple[Lanes, tuple[Answer, ...]]]:
    if not entries:
        yield lanes, way
        return
    entry, rest = entries[0], entries[1:]
    tried: set[Answer] = set()
    for place, (named, answer) in enumerate(bag):
        if answer in tried or not could_be_for(answer, named, entry):
            continue
        tried.add(answer)
        after = take(lanes, entry, answer)
        if after:
            yield from _hand_out(after, rest, bag[:place] + bag[place + 1 :], take, (*way, answer))
