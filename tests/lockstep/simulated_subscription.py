"""One subscription as document 003 tells of it, in plain sets: which messages were acknowledged, and what is persisted.

It is the other opinion beside the observer's (:mod:`model.cursors.acked`) and shares no code with it: here every
message is an element of a set, and mark-delete is where a walk over the log first meets one that is not in it.
Who the messages are given to is :mod:`tests.lockstep.simulated_dispatch`'s business.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from model.events import LoggedEntry, NotPersisted, Persisted, Range, StoredCursorRead
from model.key_shared.hashing import key_of_message
from model.log import Position
from tests.lockstep.cursor_variants import CursorVariant

Spot = tuple[Position, int]
"""A message: its entry, and its place in it, from 0."""

OPENING_S = 0.1
"""How long a cursor's ledger takes to open at most."""


@dataclass(slots=True)
class Clock:
    """The time of an example, which passes when somebody says so."""

    now_s: float = 0.0

    def advance(self, by_s: float) -> None:
        """Let time pass."""
        self.now_s += by_s

    def advance_to(self, at_s: float) -> None:
        """Let time pass until then, if that is yet to come."""
        self.now_s = max(self.now_s, at_s)

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now_s


@dataclass(slots=True)
class Log:
    """What stands in a topic, in order: the ids of each entry's messages, when it was published, and what it is hashed
    by.
    """

    entries: dict[Position, tuple[str, ...]] = field(default_factory=dict)
    published_ms: dict[Position, int] = field(default_factory=dict)
    hashed_by: dict[Position, bytes] = field(default_factory=dict)
    is_terminated: bool = False
    is_reopened: bool = False
    """It was loaded anew since it was terminated."""

    def learn(self, logged: Sequence[LoggedEntry], now_s: float) -> None:
        """Take in what was written since the last time."""
        for one in logged[len(self.entries) :]:
            self.entries[one.position] = tuple(message.business_id for message in one.entry.messages)
            self.published_ms[one.position] = int(now_s * 1000)
            key = None if one.entry.sticky_key is None else one.entry.sticky_key.encode()
            self.hashed_by[one.position] = key_of_message(key=key, producer=one.producer, sequence_id=one.entry.lowest)

    def spots(self, positions: Iterable[Position]) -> set[Spot]:
        """All messages of these entries."""
        return {(position, index) for position in positions for index in range(len(self.entries[position]))}

    def up_to(self, position: Position) -> list[Position]:
        """The entries up to and with this one."""
        return [one for one in self.entries if one <= position]

    def find(self, business_id: str) -> Spot | None:
        """Where a message stands."""
        for position, ids in self.entries.items():
            if business_id in ids:
                return position, ids.index(business_id)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How often cursors are persisted, at most and at least, and how many ranges the metadata store takes."""

    interval_s: float
    flush_s: float
    stored_ranges: int


@dataclass(slots=True)
class Subscription:
    """A subscription's state, and how much of it would survive a kill."""

    log: Log
    clock: Clock
    chance: random.Random
    limits: Limits
    variant: CursorVariant
    acked: set[Spot] = field(default_factory=set)
    durable: bool = True
    miscount: int = 0
    written: int = 0
    _origin: frozenset[Spot] = frozenset()
    _persisted: frozenset[Spot] = frozenset()
    _writes: list[tuple[float, frozenset[Spot]]] = field(default_factory=list)
    _let_through_s: float = -math.inf
    _dirty_since_s: float | None = None
    _changed_s: float | None = None
    _ledger_since_s: float | None = None
    _is_open: bool = False
    _stored: StoredCursorRead = field(default_factory=lambda: StoredCursorRead(None))

    def __post_init__(self) -> None:
        self._loaded()

    # ----------------------------------------------------------------------------------------------- what it says

    def has(self, position: Position) -> bool:
        """Whether all messages of an entry are acknowledged."""
        return all((position, index) in self.acked for index in range(len(self.log.entries[position])))

    def passed(self) -> list[Position]:
        """The entries up to mark-delete."""
        return list(takewhile(self.has, self.log.entries))

    @property
    def mark_delete(self) -> Position:
        """The last entry up to which all are acknowledged."""
        passed = self.passed()
        if passed:
            return passed[-1]
        first = next(iter(self.log.entries), None)
        return Position(-1, -1) if first is None else Position(first.ledger, -1)

    def individual(self) -> list[Position]:
        """The entries that are acknowledged behind mark-delete."""
        passed = set(self.passed())
        return [position for position in self.log.entries if position not in passed and self.has(position)]

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The same, in rows."""
        rows: list[list[Position]] = []
        for position in self.individual():
            if rows and rows[-1][-1] == Position(position.ledger, position.entry - 1):
                rows[-1].append(position)
            else:
                rows.append([position])
        return tuple(Range(Position(row[0].ledger, row[0].entry - 1), row[-1]) for row in rows)

    def left(self) -> list[Position]:
        """The entries of which something is not acknowledged."""
        return [position for position in self.log.entries if not self.has(position)]

    def left_of(self, position: Position) -> list[Spot]:
        """The messages of an entry that are not acknowledged."""
        return sorted(self.log.spots([position]) - self.acked)

    @property
    def backlog(self) -> int:
        """How many entries are left."""
        if self.variant.backlog_of_messages:
            return len(self.log.spots(self.log.entries) - self.acked)
        begun = [position for position in self.left() if len(self.left_of(position)) < len(self.log.entries[position])]
        off = len(begun) if self.variant.partial_batch_off_backlog and not self.durable else 0
        return max(0, len(self.left()) - off - self.miscount)

    def told_mark_delete(self) -> tuple[Position, tuple[Range, ...]]:
        """Mark-delete and ranges as the broker tells them."""
        mark_delete, passed = self.mark_delete, self.passed()
        if self.variant.mark_delete_stays and len(passed) > 1:
            return passed[-2], (Range(passed[-2], passed[-1]), *self.ranges)
        return mark_delete, self.ranges

    # ----------------------------------------------------------------------------------------- what changes it

    def acknowledge(self, spots: Iterable[Spot]) -> None:
        """Messages are acknowledged."""
        before = self._whole()
        by_entry: dict[Position, set[Spot]] = {}
        for spot in spots:
            by_entry.setdefault(spot[0], set()).add(spot)
        for position, several in by_entry.items():
            self._acknowledge_in(position, several)
        self._changed(before)

    def _acknowledge_in(self, position: Position, spots: set[Spot]) -> None:
        whole = self.log.spots([position])
        if self.variant.part_takes_whole_batch:
            spots = whole
        if self.variant.part_ignored and spots | self.acked < self.acked | whole:
            return
        left = self.left()
        is_next = not left or position <= left[0]
        if self.variant.repeated_ack_takes_back and position in self.individual():
            self.acked -= whole
        elif self.variant.lost_at_boundary and not is_next and position.entry == 0:
            return
        elif self.variant.bit_off_by_one and not is_next and not self.has(position):
            after = [one for one in self.log.entries if one > position]
            self.acked |= self.log.spots(after[:1])
        else:
            self.acked |= spots
            if self.variant.hole_jumped and left[1:2] == [position] and self.has(position):
                self.acked |= self.log.spots(left[:1])

    def acknowledge_up_to(self, spot: Spot) -> None:
        """All up to a message is acknowledged."""
        before, (position, index) = self._whole(), spot
        size = len(self.log.entries[position])
        if self.variant.cumulative_one_too_few and index == size - 1:
            size, index = size, index - 1
        within = {(position, number) for number in range(index + 1)}
        if self.variant.batch_index_acks_overwritten and index < size - 1 and not self.has(position):
            self.acked -= self.log.spots([position])
        self.acked |= within | self.log.spots(one for one in self.log.entries if one < position)
        if self.variant.cumulative_one_too_many and index == size - 1:
            after = [one for one in self.log.entries if one > position]
            self.acked |= self.log.spots(after[:1])
        self._changed(before)

    def skip(self, count: int) -> None:
        """The next entries are acknowledged."""
        before = self._whole()
        skipped = self.left()[: count + self.variant.skips_one_too_many]
        last_ledger = max((position.ledger for position in self.log.entries), default=0)
        if (
            self.variant.terminated_last_ledger_not_skipped
            and self.log.is_reopened
            and skipped[-1:] > [Position(last_ledger, -1)]
        ):
            skipped = [position for position in self.left() if position.ledger < last_ledger]
        self.acked |= self.log.spots(skipped)
        self._changed(before)

    def skip_all(self) -> None:
        """All that is there is acknowledged."""
        before, entries = self._whole(), list(self.log.entries)
        self.acked |= self.log.spots(entries[: len(entries) - self.variant.skip_all_leaves_one])
        self._changed(before)

    def expire(self, up_to: Position) -> None:
        """All up to an entry is acknowledged."""
        before, entries = self._whole(), list(self.log.entries)
        count = len(self.log.up_to(up_to)) + self.variant.expires_one_too_many
        self.acked |= self.log.spots(entries[:count])
        self._changed(before)

    def set_to(self, to: Position | None) -> None:
        """An entry is the next one (None: the first), and nothing behind it is acknowledged; that is persisted."""
        if self.variant.reset_miscounts_backlog:
            self.miscount += len(self.individual())
        before = [one for one in self.log.entries if to is not None and one < to]
        if self.variant.set_one_late and to is not None:
            before.append(to)
        self.acked = self.log.spots(before)
        self._ledger_since_s = self.clock.now_s if self._ledger_since_s is None else self._ledger_since_s
        self._origin = self._persisted = frozenset(self.acked)
        self.written += 1
        self._is_open = True
        self._writes.clear()
        self._dirty_since_s = self._changed_s = None

    # ------------------------------------------------------------------------------------------ what is persisted

    def _whole(self) -> list[Position]:
        return [position for position in self.log.entries if self.has(position)]

    def _changed(self, before: list[Position]) -> None:
        """Persist it now, or later; parts of batches alone are not persisted."""
        self.settle()
        if self._whole() == before:
            return
        now_s = self.clock.now_s
        self._changed_s = now_s
        interval_s = self.limits.interval_s * (10 if self.variant.limited_tenfold else 1)
        if self.variant.unlimited:
            interval_s = 0.0
        if now_s - self._let_through_s >= interval_s:
            self._write(now_s)
        elif self._dirty_since_s is None:
            self._dirty_since_s = now_s

    def _write(self, at_s: float) -> None:
        self._let_through_s = at_s
        self._dirty_since_s = None
        self._ledger_since_s = at_s if self._ledger_since_s is None else self._ledger_since_s
        earliest_s = self._writes[-1][0] if self._writes else 0.0
        delays_s = (0.002, 0.005, 0.06) if self._is_open else (0.005, 0.06, OPENING_S)
        lands_s = max(earliest_s, at_s + self.chance.choice(delays_s))
        self._writes.append((lands_s, frozenset(self.acked)))
        self.written += 1

    def _flush_s(self, since_s: float) -> float:
        """When a state is flushed that is dirty since then: at the next tick of a timer."""
        if self.variant.flush_rate_limited:
            since_s = max(since_s, self._let_through_s + self.limits.interval_s)
        return math.ceil(since_s / self.limits.flush_s) * self.limits.flush_s

    def settle(self) -> None:
        """What the timer and the disk did until now."""
        is_flushed = not (self.variant.never_flushed or self.variant.limited_tenfold)
        if is_flushed and self._dirty_since_s is not None:
            flush_s = self._flush_s(self._dirty_since_s)
            if flush_s <= self.clock.now_s:
                self._write(flush_s)
        while self._writes and self._writes[0][0] <= self.clock.now_s:
            _, self._persisted = self._writes.pop(0)
            self._is_open = True

    def await_persisted(self) -> Persisted | NotPersisted:
        """Wait until the state is persisted, or for longer than it may take."""
        began_s = self.clock.now_s
        self.settle()
        if self._dirty_since_s is not None:
            self.clock.advance_to(self._flush_s(self._dirty_since_s))
            self.settle()
        if self._dirty_since_s is not None:
            self.clock.advance(self.limits.interval_s + 3.0)
            return NotPersisted(1000 * (self.clock.now_s - began_s))
        if self._writes:
            self.clock.advance_to(self._writes[-1][0])
        self.settle()
        had_to_wait = self._changed_s is not None and began_s < self.clock.now_s
        after_s = self.clock.now_s - (self._changed_s or 0.0) if had_to_wait else 0.0
        return Persisted(1000 * after_s, self.written)

    def stored(self) -> StoredCursorRead:
        """What the metadata store has: the state, until the cursor has a ledger."""
        return self._stored if self._ledger_since_s is None else StoredCursorRead(None)

    def moved(self) -> None:
        """The topic was closed in good order, and is loaded again: nothing is lost."""
        self.settle()
        if self.variant.unload_while_cursor_ledger_opens and self._writes and not self._is_open:
            self.acked = set(self._origin)
        if self.variant.batch_index_acks_not_recovered:
            self.acked = self.log.spots(self._whole())
        if self.variant.unload_loses_ranges:
            self.acked -= self.log.spots(self.individual())
        if self.variant.unload_goes_one_further:
            self.acked |= self.log.spots(self.left()[:1])
        limit, ranges = self.limits.stored_ranges, len(self.ranges)
        is_many = ranges > limit or (ranges == limit and self.chance.random() < 0.5)
        if self.variant.range_limit_ignored_on_unload and self._ledger_since_s is None:
            is_many = False
        if self.variant.unload_bypasses_store and ranges:
            is_many = True
        self._stored = StoredCursorRead(None) if is_many else StoredCursorRead(self.mark_delete, self.ranges)
        self._loaded()

    def killed(self) -> None:
        """The broker died: the state is what was persisted, or what was just being."""
        self.settle()
        self.acked = set(self.chance.choice([self._persisted, *(state for _, state in self._writes)]))
        if self.variant.kill_loses_all:
            self.acked = set(self._origin)
        if self.variant.kill_acknowledges:
            self.acked |= self.log.spots(self.left()[:1])
        self._stored = StoredCursorRead(None)
        self._loaded()

    def _loaded(self) -> None:
        """The state is what it is persisted as, and nothing is under way."""
        self._origin = self._persisted = frozenset(self.acked)
        self._writes.clear()
        self.written = self.miscount = 0
        self._let_through_s = -math.inf
        self._dirty_since_s = self._changed_s = self._ledger_since_s = None
        self._is_open = False
