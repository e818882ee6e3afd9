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
from dataclasses import dataclass, replace

from model.events import ConsumerRead, DueReceived
from model.excuses import DEVIATIONS
from model.excuses.key_shared import DRAINING_REFCOUNT_DOUBLED, RETURNED_HASH_NOT_IN_CLEARED_TOTAL
from model.immutable.map import Map
from model.judgement import Allowed, Broken
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.key_shared.liveness import Open, Receiver, draining, owner_of
from model.key_shared.state import CountedTwice, Keyed
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


def counted(
    keyed: Keyed,
    outcome: DueReceived,
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    unsure: frozenset[int],
    known: frozenset[str],
) -> Allowed[Keyed] | Broken:
    """The stats are right, except for hashes that known deviations miscount. ``unsure`` hashes are not judged."""
    before = keyed.draining.updated(keyed.back)
    if keyed.has_left:  # a hash that moved away and back since the last look is known only by its pending entries
        before = before.updated({entry.hashed: entry.holder for entry in entries if entry.holder is not None})
    back = lingering(outcome, entries, receivers, before)
    counted_twice = _still_counted_twice(keyed, outcome, back, unsure)
    deviations: tuple[str, ...] = ()
    for mismatch in mismatches(outcome, entries, receivers, before):
        if mismatch.hashed in unsure:
            continue
        broken = wrong(mismatch, outcome, keyed)
        if broken.deviation not in known:
            return broken
        if broken.deviation == DRAINING_REFCOUNT_DOUBLED:
            counted_twice[mismatch.hashed] = CountedTwice(mismatch.consumer, mismatch.surplus)
        deviations = (*deviations, str(broken.deviation))
    not_judged = unsure.union(keyed.counted_twice, counted_twice)
    shown = keyed.draining.updated(keyed.back)
    drained = {hashed: name for hashed, name in shown.items() if hashed not in not_judged}
    sums = wrong_sums(outcome)
    if sums is not None:
        return sums
    missing = list(miscounted(outcome, entries, receivers, drained, keyed.cleared))
    if unknown := [one.broken for one in missing if one.broken.deviation not in known]:
        return unknown[0]
    drains = draining(entries, receivers)
    after = replace(
        keyed,
        draining=Map(drains),
        back=Map(back),
        blocked=frozenset(entry.hashed for entry in entries if entry.holder is None and entry.hashed in drains),
        cleared=Map({read.consumer: read.cleared for read in outcome.consumers}),
        counted_twice=Map(counted_twice),
        uncounted=keyed.uncounted.difference(_no_longer_shown(outcome, drained)).union(*(one.back for one in missing)),
    )
    deviations += tuple(str(one.broken.deviation) for one in missing)
    return Allowed(after, ("KEY-11",) if drains or keyed.draining else (), deviations, ("KEY-11",) * len(unsure))


def _still_counted_twice(
    keyed: Keyed, outcome: DueReceived, back: Mapping[int, str], unsure: frozenset[int]
) -> dict[int, CountedTwice]:
    """The hashes that were counted twice, and of which the stats do not show that they are right again.

    The stats show nothing of consumers that left. A dispatch of a hash that returned to its consumer ends its count.
    """
    there = {read.consumer for read in outcome.consumers}
    return {
        hashed: twice
        for hashed, twice in keyed.counted_twice.items()
        if hashed in unsure or twice.consumer not in there or back.get(hashed) == twice.consumer
    }


@carries("KEY-11")
def wrong(mismatch: Mismatch, outcome: DueReceived, keyed: Keyed) -> Broken:
    """The violation of a mismatch.

    A hash that moves away a second time may be counted in addition to its first count. A hash that returned without
    being counted stays on that consumer's list. It is shown there again when it drains for another consumer, with the
    same count.
    """
    shown_elsewhere = [
        one.unacknowledged
        for read in outcome.consumers
        for one in read.draining
        if read.consumer != mismatch.consumer and one.hashed == mismatch.hashed
    ]
    is_uncounted = (mismatch.hashed, mismatch.consumer) in keyed.uncounted and mismatch.waits_for == 0
    if is_uncounted and mismatch.shown in shown_elsewhere:
        return DEVIATIONS[RETURNED_HASH_NOT_IN_CLEARED_TOTAL].broken(str(mismatch))
    if _is_counted_twice(mismatch, keyed):
        return DEVIATIONS[DRAINING_REFCOUNT_DOUBLED].broken(str(mismatch))
    return Broken("KEY-11", str(mismatch))


def _is_counted_twice(mismatch: Mismatch, keyed: Keyed) -> bool:
    """Whether a hash that returned moved away again, which adds its pending entries of that time to its count.

    The surplus then stays the same. It has at least the entries that are still pending, and no part of them if none has
    been acknowledged since.
    """
    waits, surplus = mismatch.waits_for, mismatch.surplus
    drained_at = keyed.may_be_back.get(mismatch.hashed)
    may_be_back = drained_at == mismatch.consumer or (drained_at is None and keyed.has_left)
    twice = keyed.counted_twice.get(mismatch.hashed)
    if twice is not None and twice.consumer == mismatch.consumer:
        return surplus == twice.surplus or (may_be_back and surplus > twice.surplus)
    return may_be_back and 0 < waits <= surplus and (keyed.is_woken or surplus % waits == 0)


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


def _no_longer_shown(outcome: DueReceived, before: Mapping[int, str]) -> frozenset[tuple[int, str]]:
    """The hashes of connected consumers that drained before and are no longer shown, and their consumers."""
    shown = {read.consumer: {one.hashed for one in read.draining} for read in outcome.consumers}
    return frozenset((hashed, name) for hashed, name in before.items() if name in shown and hashed not in shown[name])


@dataclass(frozen=True, slots=True)
class Uncounted:
    """A total of cleared hashes that lacks some, and the hashes with their consumer that returned by a dispatch."""

    broken: Broken
    back: frozenset[tuple[int, str]]


@carries("KEY-11")
def miscounted(
    outcome: DueReceived,
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    before: Mapping[int, str],
    cleared: Mapping[str, int],
) -> Iterator[Uncounted]:
    """A hash that no longer drains for a consumer counts as cleared.

    By a deviation, a hash does not that returned to the consumer and no longer drains because of a dispatch. Then the
    consumer has messages of it, whereas a hash that has drained has none.
    """
    pending = {(entry.hashed, entry.holder) for entry in entries}
    for read in outcome.consumers:
        if read.consumer not in cleared:
            continue
        still = {one.hashed for one in read.draining}
        gone = [hashed for hashed, name in before.items() if name == read.consumer and hashed not in still]
        missing = cleared[read.consumer] + len(gone) - read.cleared
        if missing > 0:
            what = (
                f"{len(gone)} hashes of {read.consumer} were cleared after the stats had shown {cleared[read.consumer]}"
            )
            because = f"{what}, but they now show {read.cleared}"
            owners = {hashed: owner_of(hashed, receivers) for hashed in gone}
            back = frozenset(
                (hashed, read.consumer)
                for hashed, owner in owners.items()
                if owner is not None and owner.name == read.consumer and (hashed, read.consumer) in pending
            )
            is_explained = missing <= len(back)
            deviation = DEVIATIONS[RETURNED_HASH_NOT_IN_CLEARED_TOTAL]
            yield Uncounted(deviation.broken(because) if is_explained else Broken("KEY-11", because), back)
