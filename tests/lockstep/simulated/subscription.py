"""One subscription of a simulated broker: the reference of document 003 (:mod:`model.cursors.reference`), with a clock.

The reference says what is acknowledged, persisted and recovered. This module decides what it leaves open: when the rate
limiter's interval and the flush interval end, how long a write takes, and which outcome a kill or an unload has.
Dispatch is left to :mod:`tests.lockstep.simulated.dispatch`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from model.cursors import reference
from model.cursors.acked import Acked, found_by_search, nth_by_all_ranges, nth_by_first_ranges, skip_starting_over
from model.cursors.info import PositionInfo
from model.cursors.log import Place, TopicLog, appended, key_of
from model.cursors.reference import CursorLedger
from model.events import LoggedEntry, MessagePeeked, NotPersisted, Persisted, StoredCursorRead
from model.judgement import Broken
from model.log import Position
from model.vocabulary import Entry
from tests.lockstep.simulated.variants import SimulatedVariant

Spot = tuple[Position, int]
"""A message: its entry, and its index in the entry."""

DELAYS_S = (0.002, 0.005, 0.06)
"""How long a write takes."""
FIRST_DELAYS_S = (0.005, 0.06, 0.1)
"""How long it takes while the cursor's ledger opens."""


@dataclass(slots=True)
class Clock:
    """The clock of an example, which advances only when told to, and when its delayed messages are due."""

    now_s: float = 0.0
    due_s: dict[str, float] = field(default_factory=dict)
    ages_s: dict[str, int] = field(default_factory=dict)

    def advance(self, by_s: float) -> None:
        """Let time pass."""
        self.now_s += by_s

    def advance_to(self, at_s: float) -> None:
        """Let time pass until then, unless it is over already."""
        self.now_s = max(self.now_s, at_s)

    def sending(self, entries: Sequence[Entry], age_s: int) -> None:
        """Entries are being sent that are so old: from now on the delays of delayed messages count."""
        messages = [message for entry in entries for message in entry.messages]
        self.ages_s.update({one.business_id: 0 if one.delay_ms else age_s for one in messages})
        self.due_s.update({one.business_id: self.now_s + one.delay_ms / 1000 for one in messages if one.delay_ms})

    def await_delayed(self) -> None:
        """Let time pass until all delayed messages are due."""
        self.advance_to(max(self.due_s.values(), default=0.0))

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now_s


@dataclass(slots=True)
class Log:
    """A topic's log, in order: the ids of each entry's messages, when it was published, and its form in the model."""

    entries: dict[Position, tuple[str, ...]] = field(default_factory=dict)
    published_ms: dict[Position, int] = field(default_factory=dict)
    of_model: TopicLog = field(default_factory=TopicLog)
    is_terminated: bool = False
    is_reopened: bool = False
    """It was loaded again after it was terminated."""

    def learn(self, logged: Sequence[LoggedEntry], now_s: float, ages_s: Mapping[str, int]) -> None:
        """Add the entries written since the last time; ``ages_s``: how old messages were when they were sent."""
        for one in logged[len(self.entries) :]:
            ids = tuple(message.business_id for message in one.entry.messages)
            longer = appended(self.of_model, one.position, ids, key_of(one.entry, one.producer), one.entry.chunk)
            assert not isinstance(longer, Broken), longer
            self.of_model = longer
            self.entries[one.position] = ids
            self.published_ms[one.position] = int((now_s - ages_s.get(ids[0], 0)) * 1000)

    def place(self, spot: Spot) -> Place:
        """A message in the model's form."""
        return self.of_model.places_at(spot[0])[spot[1]]

    def spots(self, positions: Iterable[Position]) -> set[Spot]:
        """All messages of these entries."""
        return {(position, index) for position in positions for index in range(len(self.entries[position]))}

    def up_to(self, position: Position) -> list[Position]:
        """The entries up to and with this one."""
        return [one for one in self.entries if one <= position]

    def find(self, business_id: str) -> Spot | None:
        """The identity of the message with this business id."""
        for position, ids in self.entries.items():
            if business_id in ids:
                return position, ids.index(business_id)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The rate limit and the flush interval of cursors, and how many ranges the metadata store takes."""

    interval_s: float
    flush_s: float
    stored_ranges: int


@dataclass(slots=True)
class Subscription:
    """A subscription, and the times of its next changes."""

    log: Log
    clock: Clock
    chance: random.Random
    limits: Limits
    variant: SimulatedVariant
    state: reference.CursorSubscription
    durable: bool = True
    written: int = 0
    """How many entries its ledger has."""
    _done_s: list[float] = field(default_factory=list)
    """When each of the writes in flight completes."""
    _limited_until_s: float = -math.inf
    _dirty_since_s: float | None = None
    _changed_s: float | None = None
    _not_counted: int = 0

    def __post_init__(self) -> None:
        """Count all entries, except for the last one where the broker deviates."""
        is_at_last = reference.backlog(self.state, self.log.of_model) == 1
        self._not_counted = int(self.variant.last_entry_not_in_backlog and not self.durable and is_at_last)

    # ------------------------------------------------------------------------------------------- observable state

    def has(self, position: Position) -> bool:
        """Whether all messages of an entry are acknowledged."""
        return self.state.acked.has(position)

    def left(self) -> list[Position]:
        """The entries with an unacknowledged message."""
        return list(self.state.acked.unacknowledged(self.log.of_model))

    def is_due(self, position: Position) -> bool:
        """Whether an entry is no delayed message, or its time has come."""
        return self.clock.due_s.get(self.log.entries[position][0], 0.0) <= self.clock.now_s

    def not_due(self) -> frozenset[Position]:
        """The delayed messages whose time has not come."""
        left = self.left() if self.clock.due_s else []
        return frozenset(position for position in left if not self.is_due(position))

    def left_of(self, position: Position) -> list[Spot]:
        """The messages of an entry that are not acknowledged."""
        places = enumerate(self.log.of_model.places_at(position))
        return [(position, index) for index, place in places if not self.state.acked.has_message(place)]

    @property
    def backlog(self) -> int:
        """The number of entries that are not acknowledged, as the broker counts them."""
        return max(0, reference.backlog(self.state, self.log.of_model) - self._not_counted)

    def shown(self) -> PositionInfo:
        """Mark-delete and ranges in the broker's stats."""
        return reference.stats_position(self.state, self.log.of_model)

    def peek(self, nth: int) -> MessagePeeked:
        """The unacknowledged entry of this number, from 1."""
        counted = self.log.of_model.all_after(self.state.acked.mark_delete)
        entries = counted if self.variant.peek_counts_acknowledged else self.left()
        found = next(islice(entries, nth - 1, None), None)
        log = self.log.of_model
        stops_early = self.variant.terminated_last_ledger_not_skipped and self.log.is_reopened
        if stops_early and found is not None and found.ledger == log.last.ledger:
            found = log.before_last_ledger
        return MessagePeeked(found)

    def stored(self) -> StoredCursorRead:
        """What the metadata store has: the state, until the cursor has a ledger."""
        info = self.state.stored
        if info is None or self.state.ledger is not CursorLedger.NONE:
            return StoredCursorRead(None)
        info = reference.with_first_ledger(info, self.log.of_model)
        return StoredCursorRead(info.mark_delete, info.ranges)

    # ----------------------------------------------------------------------------------------- changes

    def acknowledge(self, spots: Iterable[Spot]) -> None:
        """Messages are acknowledged."""
        places = [self.log.place(spot) for spot in spots]
        self._change(lambda state, log: reference.acknowledge(state, log, places))

    def acknowledge_up_to(self, spot: Spot) -> None:
        """Everything up to a message is acknowledged."""
        self._change(lambda state, log: reference.acknowledge_up_to(state, log, self.log.place(spot)))

    def skip(self, count: int) -> None:
        """The next entries are acknowledged."""
        reached: Position | None = None
        if self.variant.skip_past_terminated_end_starts_over and self.log.is_reopened:
            reached = skip_starting_over(self.state.acked, self.log.of_model, count).mark_delete
        elif self.variant.later_ranges_not_counted or self.variant.all_ranges_counted:
            miscounted = nth_by_all_ranges if self.variant.all_ranges_counted else nth_by_first_ranges
            reached = next(iter(miscounted(self.state.acked, self.log.of_model, count)), None)
        if reached is not None:
            self._change(lambda state, log: reference.expire(state, log, reached))
        else:
            self._change(lambda state, log: reference.skip(state, log, count, is_reopened=self.log.is_reopened))

    def skip_all(self) -> None:
        """All entries are acknowledged."""
        self._change(reference.skip_all)

    def expire(self, up_to: Position) -> None:
        """Everything up to an entry is acknowledged."""
        if self.variant.expiry_stops_at_acknowledged:
            up_to = found_by_search(self.state.acked, self.log.of_model, up_to) or up_to
        self._change(lambda state, log: reference.expire(state, log, up_to))

    def acknowledge_through(self, position: Position) -> None:
        """Everything up to an entry is acknowledged, found by its age."""
        self._change(lambda state, log: reference.expire(state, log, position))

    def set_to(self, to: Position | None) -> None:
        """An entry becomes the next one (None: the first), with nothing after it acknowledged; that is persisted."""
        self.settle()
        self.state = reference.reset(self.state, self.log.of_model, to)
        following = self.log.of_model.after(self.state.acked.mark_delete)
        if self.variant.reset_persists_read_position and following is not None:
            self.state = replace(self.state, persisted=reference.record_of(Acked(following)))
        self.written += 1
        self._done_s.clear()
        self._dirty_since_s = self._changed_s = None

    def _change(self, change: Callable[[reference.CursorSubscription, TopicLog], reference.CursorSubscription]) -> None:
        self.settle()
        before = self.state
        self._becomes(change(before, self.log.of_model), self.clock.now_s)
        if _entries(self.state.acked) != _entries(before.acked):
            self._changed_s = self.clock.now_s

    # ---------------------------------------------------------------------------------------------- time

    def _becomes(self, after: reference.CursorSubscription, at_s: float) -> None:
        """The next state of the reference: a write may have begun, or the state be dirty from now on."""
        if len(after.writes) > len(self.state.writes):
            is_open = self.state.ledger is CursorLedger.OPEN
            earliest_s = self._done_s[-1] if self._done_s else 0.0
            done_s = at_s + self.chance.choice(DELAYS_S if is_open else FIRST_DELAYS_S)
            self._done_s.append(max(earliest_s, done_s))
            self._limited_until_s = at_s + self.limits.interval_s * after.limited
            self.written += 1
        if not after.writes:  # a skip is persisted at once, and with it all before it
            self._done_s.clear()
        if not after.is_dirty:
            self._dirty_since_s = None
        elif self._dirty_since_s is None:
            self._dirty_since_s = at_s
        self.state = after

    def settle(self) -> None:
        """Apply what the timers and the disk did until now."""
        if self._dirty_since_s is not None and (at_s := self._flush_s(self._dirty_since_s)) <= self.clock.now_s:
            self._end_interval(at_s)
            self._becomes(reference.flushed(self.state), at_s)
        self._end_interval(self.clock.now_s)
        while self._done_s and self._done_s[0] <= self.clock.now_s:
            self._done_s.pop(0)
            self.state = reference.written(self.state)

    def _flush_s(self, since_s: float) -> float:
        """When a state that is dirty since then is flushed: at the timer's next tick that the rate limiter allows."""
        if self.variant.flush_rate_limited:
            since_s = max(since_s, self._limited_until_s)
        return math.ceil(since_s / self.limits.flush_s) * self.limits.flush_s

    def _end_interval(self, now_s: float) -> None:
        while self.state.limited and self._limited_until_s <= now_s:
            self.state = reference.interval_passed(self.state)

    def await_persisted(self) -> Persisted | NotPersisted:
        """Wait until the state is persisted, or for longer than it may take."""
        began_s = self.clock.now_s
        self.settle()
        if self._dirty_since_s is not None:
            self.clock.advance_to(self._flush_s(self._dirty_since_s))
            self.settle()
        if self.state.is_dirty:
            self.clock.advance(self.limits.interval_s + 3.0)
            return NotPersisted(1000 * (self.clock.now_s - began_s))
        if self._done_s:
            self.clock.advance_to(self._done_s[-1])
        self.settle()
        had_to_wait = self._changed_s is not None and began_s < self.clock.now_s
        after_s = self.clock.now_s - (self._changed_s or 0.0) if had_to_wait else 0.0
        return Persisted(1000 * after_s, self.written)

    def unloaded(self) -> None:
        """The topic was unloaded gracefully, and loaded again."""
        self.settle()
        if self.variant.opening_loses_ranges and self.state.ledger is CursorLedger.OPENING:
            self.state = replace(self.state, acked=Acked(self.state.acked.mark_delete, parts=self.state.acked.parts))
        is_new = self.state.acked == reference.recovered_from(self.state.origin, self.log.of_model)
        if self.variant.created_cursor_persisted_at_latest and is_new and not self.state.writes:
            self.state = replace(self.state, acked=reference.recovered_from(self.state.persisted, self.log.of_model))
        self._loaded(reference.unloaded(self.state, self.log.of_model, self.limits.stored_ranges))

    def killed(self) -> None:
        """The broker was killed."""
        self.settle()
        self._loaded(reference.killed(self.state, self.log.of_model))
        if self.variant.partial_acks_persisted_as_first and len(self.state.acked.parts) > 1:
            self.state = replace(self.state, acked=self.state.acked.with_parts_of_first(self.log.of_model))

    def _loaded(self, choices: Sequence[reference.CursorSubscription]) -> None:
        self.state = self.chance.choice(choices)
        self._done_s.clear()
        self.written = 0
        self._limited_until_s = -math.inf
        self._dirty_since_s = self._changed_s = None


def _entries(state: Acked) -> tuple[object, ...]:
    """The whole entries that are acknowledged."""
    return state.mark_delete, state.words
