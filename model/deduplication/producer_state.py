"""Producer states: what a broker may hold of one producer name on one topic, as values; how they change is
:mod:`model.deduplication.observer`.

A state has the producer's entries in the log, and the highest sequence ids *pushed* and
*persisted*. Nothing here decides what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from model.log import Position
from model.vocabulary import Entry

NONE = -1
"""The sequence id of a producer of which nothing is known."""

UNKNOWN_STATUS = "UnknownStatus"
"""The code of a refusal that says: it cannot be told yet whether this is a duplicate (DEDUP-04)."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry in the log; its position where known, and whether a last sequence id covers it."""

    entry: Entry
    position: Position | None = None
    is_reported: bool = False
    is_fragile: bool = False
    """Its write may be in flight and fail yet."""
    ends: int | None = None
    """The id that the broker takes for its highest, where the client did not say."""
    is_endless: bool = False
    """A batch that was sent without its highest id: what the broker counts of it is at least its lowest."""
    is_forgotten: bool = False
    """The broker does not count it: it has recovered without it (the deviation ``snapshot-position-ahead``), or has
    recorded a lower id after it (``deduplication-enabled-in-flight``)."""
    in_move: bool = False
    """It was in flight while its topic was closed, or while writes were made to fail."""
    maybe: int | None = None
    """It may not be there: it was sent in this send without deduplication, and no answer came. Those behind it in the
    same send are not there either, then."""

    @property
    def highest(self) -> int:
        """The highest id that the broker counts."""
        return self.entry.highest if self.ends is None else self.ends


@dataclass(frozen=True, slots=True)
class ProducerState:
    """One possible state of one producer name on one topic.

    ``persisted`` is what is at least persisted: while writes are in flight it may be anything up to ``written``.
    ``since`` is the number of entries that deduplication does not count, being older than its switching on.
    ``failed``: a write failed, and *pushed* may or may not have fallen back. ``cut``: the broker listens no more to
    the entries that are being sent. ``is_recovered``: nothing was observed since the topic recovered. ``requires``: the
    deviations without which this state would not be possible.
    """

    kept: tuple[StoredEntry, ...] = ()
    pushed: int = NONE
    persisted: int = NONE
    since: int = 0
    failed: bool = False
    cut: bool = False
    is_recovered: bool = False
    requires: frozenset[str] = frozenset()
    may_be_behind: bool = False
    """The recovery may continue while the broker serves the producer (``second-recovery-not-awaited``)."""
    is_behind: bool = False
    """It does, and some of the state is not replayed yet."""
    raced: int = 0
    """How many of its entries were there the last time that a recovery may have gone on behind what the broker did: a
    snapshot that was taken meanwhile may lack any of them."""
    lags: bool = False
    """*Pushed* is below *persisted* (the deviation ``deduplication-enabled-in-flight``)."""
    unanswered: int = 0
    """How many sends were not answered."""

    @property
    def written(self) -> int:
        """The highest sequence id among the entries that deduplication counts; -1 for none."""
        return max((kept.highest for kept in self.kept[self.since :] if not kept.is_forgotten), default=NONE)

    @property
    def stored(self) -> int:
        """The highest sequence id in the log since deduplication is on, whatever the broker counts; -1 for none."""
        return max((kept.entry.highest for kept in self.kept[self.since :]), default=NONE)

    @property
    def last_sequence_id(self) -> int:
        """The last sequence id in ProducerSuccess."""
        return self.pushed if self.lags else self.written


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else is known about a send.

    ``enabled``: deduplication is on. ``may_fail``: a write may fail. ``by_pulsar_client``: the client sends again by
    itself what was not confirmed, after an error too, and tells nobody; and it does not say where its batches end.
    ``switched_on``: it was sent while deduplication was off, which was switched on before the answer was there.
    """

    enabled: bool = True
    may_fail: bool = False
    by_pulsar_client: bool = False
    switched_on: bool = False

    def leaves_open(self, entry: Entry) -> bool:
        """Whether the client does not say where an entry ends."""
        return self.by_pulsar_client and entry.is_batch


ProducerStates = frozenset[ProducerState]
"""The possible states of a producer name. Empty: impossible."""

FRESH: ProducerStates = frozenset({ProducerState()})


def simplest(states: Iterable[ProducerState]) -> ProducerStates:
    """The states without those that are like another one and need more deviations, which are never needed then."""
    needs: dict[ProducerState, set[frozenset[str]]] = {}
    for state in states:
        needs.setdefault(replace(state, requires=frozenset()) if state.requires else state, set()).add(state.requires)
    return frozenset(
        replace(state, requires=requires) if requires else state
        for state, ways in needs.items()
        for requires in ways
        if not any(other < requires for other in ways)
    )
