"""Compares the draining hashes in the stats (KEY-11) with those that follow from pending acks and ranges.

A hash drains while messages of it are pending at one consumer and it is in the ranges of another. Brokers count
entries: a batch is one. A hash that returned to its consumer may be shown until the next dispatch of it, because the
document allows its removal as late as that (KEY-07). Any other hash that is shown and does not drain is wrong.

Of KEY-12, the range of hashes is judged here: it bounds the number of draining hashes. The memory of one is measured on
a live broker (``tests/quality/draining_heap.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.events import ConsumerRead, DueReceived
from model.judgement import Broken
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.key_shared.liveness import Open, Receiver, draining, owner_of
from model.rules.catalogue import carries


def receivers_of(outcome: DueReceived) -> list[Receiver] | None:
    """The consumers in the stats; None if the stats lack their ranges."""
    receivers = []
    for read in outcome.consumers:
        if read.ranges is None:
            return None
        receivers.append(Receiver(read.consumer, read.permits, tuple(sorted(read.ranges))))
    return receivers


def expected(entries: Iterable[Open], receivers: Iterable[Receiver]) -> dict[str, dict[int, int]]:
    """By consumer, the hashes that the stats must show as draining, and the number of pending entries of each."""
    entries = list(entries)
    waits = draining(entries, receivers)
    counts = Counter(entry.hashed for entry in entries if entry.holder is not None)
    shown: dict[str, dict[int, int]] = {}
    for hashed, name in waits.items():
        shown.setdefault(name, {})[hashed] = counts[hashed]
    return shown


@carries("KEY-12")
def not_split(receivers: Sequence[Receiver]) -> Broken | None:
    """Consumers that claim no ranges share all 65535 hashes, without overlaps."""
    following = AUTO_SPLIT_HASHES.first
    for own in sorted(own for one in receivers for own in one.ranges):
        if own.first != following:
            return Broken("KEY-12", f"the ranges of consumers have {own} where one from {following} on must begin")
        following = own.last + 1
    if following != AUTO_SPLIT_HASHES.last + 1:
        return Broken("KEY-12", f"the ranges of consumers end at {following - 1}, not at {AUTO_SPLIT_HASHES.last}")
    return None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A hash for which the stats show a wrong number of pending entries."""

    hashed: int
    consumer: str
    waits_for: int
    shown: int

    @property
    def surplus(self) -> int:
        return self.shown - self.waits_for

    def __str__(self) -> str:
        what = f"hash {self.hashed} drains for {self.waits_for} entries that are unacknowledged at {self.consumer}"
        return f"{what}, but the stats show {self.shown}"


def mismatches(
    outcome: DueReceived, entries: Sequence[Open], receivers: Sequence[Receiver], before: Mapping[int, str]
) -> Iterator[Mismatch]:
    """The hashes that the stats show wrongly. ``before``: the draining hashes at the last look, and their consumers."""
    must = expected(entries, receivers)
    for read in outcome.consumers:
        own = must.get(read.consumer, {})
        shown = {one.hashed: one.unacknowledged for one in read.draining}
        for hashed in sorted(own.keys() | shown.keys()):
            if shown.get(hashed, 0) != own.get(hashed, 0) and not _may_linger(read, hashed, own, receivers, before):
                yield Mismatch(hashed, read.consumer, own.get(hashed, 0), shown.get(hashed, 0))


def lingering(
    outcome: DueReceived, entries: Sequence[Open], receivers: Sequence[Receiver], before: Mapping[int, str]
) -> dict[int, str]:
    """The hashes that returned to their consumer and are still shown as draining, and that consumer."""
    must = expected(entries, receivers)
    return {
        one.hashed: read.consumer
        for read in outcome.consumers
        for one in read.draining
        if _may_linger(read, one.hashed, must.get(read.consumer, {}), receivers, before)
    }


def _may_linger(
    read: ConsumerRead,
    hashed: int,
    own: Mapping[int, int],
    receivers: Sequence[Receiver],
    before: Mapping[int, str],
) -> bool:
    owner = owner_of(hashed, receivers)
    is_back = owner is not None and owner.name == read.consumer and before.get(hashed) == read.consumer
    return is_back and hashed not in own


@carries("KEY-11")
def wrong_sums(outcome: DueReceived) -> Broken | None:
    """The subscription's numbers are the sums of its consumers'."""
    of_consumers = (
        sum(len(read.draining) for read in outcome.consumers),
        sum(one.unacknowledged for read in outcome.consumers for one in read.draining),
        sum(read.cleared for read in outcome.consumers),
    )
    shown = (outcome.draining, outcome.unacknowledged, outcome.cleared)
    names = ("draining hashes", "unacknowledged messages of draining hashes", "cleared hashes")
    for what, one, other in zip(names, of_consumers, shown, strict=True):
        if one != other:
            return Broken(
                "KEY-11", f"the stats show {other} {what} for the subscription, but {one} in total for its consumers"
            )
    return None


def uncleared(
    outcome: DueReceived,
    entries: Iterable[Open],
    receivers: Sequence[Receiver],
    before: Mapping[int, str],
    cleared: Mapping[str, int],
) -> Iterator[tuple[str, str, frozenset[int], frozenset[int], int]]:
    """Each consumer whose total lacks cleared hashes: its name, why, the hashes that no longer drain there, those of
    them that it has again with pending messages, and how many are missing.

    ``before``: the hashes that drained, and where.
    """
    pending = {(entry.hashed, entry.holder) for entry in entries}
    for read in outcome.consumers:
        if read.consumer not in cleared:
            continue
        still = {one.hashed for one in read.draining}
        gone = frozenset(one for one, name in before.items() if name == read.consumer and one not in still)
        missing = cleared[read.consumer] + len(gone) - read.cleared
        if missing > 0:
            what = (
                f"{len(gone)} hashes of {read.consumer} were cleared after the stats had shown {cleared[read.consumer]}"
            )
            owners = {hashed: owner_of(hashed, receivers) for hashed in gone}
            has_returned = frozenset(
                hashed
                for hashed, owner in owners.items()
                if owner is not None and owner.name == read.consumer and (hashed, read.consumer) in pending
            )
            yield read.consumer, f"{what}, but they now show {read.cleared}", gone, has_returned, missing
