"""Producer states: the broker's possible knowledge of one producer name on one topic, as immutable values.

A state has the producer's entries in the log, and the highest sequence ids *pushed* and *persisted*.
:mod:`model.deduplication.observer` changes states and decides what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.log import Position
from model.vocabulary import Entry

NONE = -1
"""The sequence id of an unknown producer."""

UNKNOWN_STATUS = "UnknownStatus"
"""The code of a refusal because the broker does not know yet whether the entry is a duplicate (DEDUP-04)."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry in the log, its position if known, and whether a last sequence id covers it."""

    entry: Entry
    position: Position | None = None
    is_reported: bool = False
    may_fail_later: bool = False
    """Its write may be in flight and may fail."""
    counts: int | None = None
    """The id that the broker counts instead of what the document says; -1: none."""
    was_in_flight: bool = False
    """It was in flight during an unload or while writes could fail."""
    maybe: int | None = None
    """It may not be stored: this send was without deduplication and got no answer. If it is not stored, later entries
    of the send are not stored either."""
    has_ended: bool = False
    """The topic was reloaded after it was sent: its write is not in flight any more, whether or not it is stored."""

    @property
    def highest(self) -> int:
        """The highest id that the broker counts."""
        return self.entry.highest if self.counts is None else self.counts

    @property
    def is_counted(self) -> bool:
        """Whether the broker counts it: not a chunk of a message that is not complete with it."""
        return not self.entry.is_part if self.counts is None else self.counts != NONE


@dataclass(frozen=True, slots=True)
class ProducerState:
    """One possible state of one producer name on one topic.

    ``persisted``: the lower bound of *persisted*; while writes are in flight it may be anything up to ``written``.
    ``since``: the number of entries that are older than the switch of deduplication and do not count. ``failed``: a
    write failed, and *pushed* may or may not have fallen back. ``cut``: the broker no longer receives the entries of
    this send. ``is_recovered``: nothing was observed since the topic recovered.
    """

    entries: tuple[StoredEntry, ...] = ()
    pushed: int = NONE
    persisted: int = NONE
    since: int = 0
    failed: bool = False
    cut: bool = False
    is_recovered: bool = False
    unanswered: int = 0
    """How many sends got no answer."""
    recalls: int | None = None
    """The broker has forgotten the producer. From this entry on, a snapshot may have its ids, and a reload may count
    its entries again."""

    @property
    def written(self) -> int:
        """The highest sequence id among the entries that deduplication counts; -1 for none."""
        return max((one.highest for one in self.entries[self.since :] if one.is_counted), default=NONE)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of a send.

    ``enabled``: deduplication is on. ``may_fail``: a write may fail. ``by_pulsar_client``: the client silently resends
    unconfirmed entries, also after an error. ``switched_on``: deduplication was off at the send, and was switched on
    before the answer.
    """

    enabled: bool = True
    may_fail: bool = False
    by_pulsar_client: bool = False
    switched_on: bool = False


ProducerStates = frozenset[ProducerState]
"""The possible states of a producer name. Empty: impossible."""

FRESH: ProducerStates = frozenset({ProducerState()})
