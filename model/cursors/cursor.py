"""The observer's view of one cursor: its possible states, and those that may have been persisted.

Normally there is one state. After a kill there are several, until the next observation (ACK-09). Grouped acks of a
client (ACK-11) may or may not have taken effect, so the state may include any number of them. Times are arguments, in
milliseconds since the example began. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from model.cursors import diagnosis
from model.cursors.acked import Acked, Word, acknowledge_all, acknowledge_up_to, overwritten
from model.cursors.bits import Bits
from model.cursors.log import Place, TopicLog
from model.cursors.row import Row
from model.excuses.cursors import (
    BATCH_INDEX_ACKS_NOT_RECOVERED,
    BATCH_INDEX_ACKS_OVERWRITTEN,
    CREATED_CURSOR_PERSISTED_AT_LATEST,
    PARTIAL_ACKS_NOT_PERSISTED,
    PARTIAL_ACKS_PERSISTED_AS_FIRST,
    SKIP_RATE_LIMITED,
    UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
)
from model.excuses.ways import BY_DOCUMENT, Ways, by, is_known, merged, minimal, required, simplest, together
from model.immutable.map import Map
from model.judgement import Allowed, Broken
from model.log import Position
from model.rules.catalogue import carries

OPENING_MS = 150.0
"""The longest time to open a cursor's ledger; 5 to 60 ms were measured."""
SLACK_MS = 2_000.0
"""The longest time that a write of a cursor may take, far longer than any measured."""

Labelled = tuple[Acked, Ways]
"""A state, and the deviations that lead to it."""
OVERWRITTEN = by(BATCH_INDEX_ACKS_OVERWRITTEN)
PARTS_LOST = by(BATCH_INDEX_ACKS_NOT_RECOVERED)


@dataclass(frozen=True, slots=True)
class Interval:
    invoked_ms: float
    completed_ms: float


@dataclass(frozen=True, slots=True)
class Persisting:
    """How often a cursor is persisted: at most every ``interval_ms`` (0: with every ack), and if dirty, within
    ``flush_ms``. ``stored_ranges``: how many ranges the metadata store takes on an unload."""

    interval_ms: float
    flush_ms: float
    stored_ranges: int = 1000


@dataclass(frozen=True, slots=True)
class Ack:
    """The places that one command acknowledges; a cumulative ack has one."""

    places: tuple[Place, ...]
    cumulative: bool = False

    def on(self, state: Acked, log: TopicLog) -> Acked:
        if self.cumulative:
            return acknowledge_up_to(state, log, self.places[0])
        return acknowledge_all(state, log, self.places)

    def deviating(self, state: Acked, log: TopicLog, taken_back: Collection[Acked] = ()) -> list[Labelled]:
        """The possible states after it in releases that deviate.

        If a deviation took parts of a batch back, an ack of its other parts may contain them, as the client remembers.
        """
        if not self.cumulative:
            parts = {place.position for place in self.places if state.parts[place.position]}
            rest = [place for at in parts if any(one.has(at) for one in taken_back) for place in log.places_at(at)]
            return [(acknowledge_all(self.on(state, log), log, rest), OVERWRITTEN)] if rest else []
        if self.places[0].batch_index < 0:
            return []
        return [(overwritten(state, log, self.places[0]), OVERWRITTEN)]


@dataclass(frozen=True, slots=True)
class Moment:
    """The possible states from a time on.

    ``is_confirmed``: the broker persisted the state before it answered, or the harness waited until it did.
    ``is_individual``: it resulted from an individual ack. ``is_placing``: from no ack, but from creating, resetting,
    seeking, skipping or expiring. ``instead``: the states that may have been persisted instead, by deviations.
    """

    at: Interval
    states: frozenset[Acked]
    is_confirmed: bool = False
    is_individual: bool = False
    is_placing: bool = False
    instead: Map[Acked, Ways] = Map()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A subscription."""

    possible: frozenset[Acked]
    """The possible states."""
    durable: bool = True
    grouped: Map[str, tuple[Ack, ...]] = Map()
    """By consumer, the acks that its client may not have sent yet."""
    stray: tuple[Ack, ...] = ()
    """Such acks of consumers that disconnected."""
    past: Row[Moment] = Row()
    """The states since the last one that is surely persisted, with that one."""
    since: frozenset[str] = frozenset()
    """The rules that operations exercised since the last read."""
    is_flushed: bool = False
    """Nothing changed since it was persisted."""
    is_unloaded: bool = False
    """Nothing changed since the topic was unloaded."""
    was_opening: bool = False
    """That ledger may not have been open yet, and may have the state now."""
    deviating: Map[Acked, Ways] = Map()
    """States possible by deviations only, and these."""
    ledger_since_ms: float | None = None
    """Since when the cursor has its own ledger, or opens it; None: it has none."""
    by_administrators: int = 0
    """How many changes since then were no acks, which the rate limit does not cover."""
    opens_ms: float | None = None
    """The latest time at which that ledger was requested."""
    is_requested: bool = False
    """It surely was requested."""
    lost_before: Map[Acked, Ways] = Map()
    """``deviating`` when the topic was loaded."""
    taken_back: frozenset[Acked] = frozenset()
    """The states that were assumed until a deviation took an ack back; messages of such acks may be pending."""
    begins_after: frozenset[Position] = frozenset()
    """The last entries of the ledgers that were deleted, perhaps, when it was created."""

    def labelled(self) -> Iterator[Labelled]:
        """The possible states, with those by deviations."""
        yield from ((state, BY_DOCUMENT) for state in self.possible)
        yield from self.deviating.items()

    def by(self, name: str) -> Iterator[Labelled]:
        """The states that a deviation makes possible, alone or with others."""
        for state, ways in self.deviating.items():
            if by_it := frozenset(way for way in ways if name in way):
                yield state, by_it

    def imaginable(self, known: frozenset[str]) -> frozenset[Acked]:
        """The possible states, with those by known deviations."""
        if not self.deviating:
            return self.possible
        return self.possible.union(state for state, ways in self.deviating.items() if is_known(ways, known))

    def is_taken_back(self, place: Place) -> bool:
        """Whether a deviation took back the ack of a message, so that it may be pending at a consumer."""
        return any(state.has_message(place) for state in self.taken_back)

    @property
    def suspects(self) -> frozenset[str]:
        """The rules exercised since the last read that a wrong state may break. An ack since hides where it began."""
        is_where_placed = len(self.past) > 0 and self.past[len(self.past) - 1].is_placing
        return self.since if is_where_placed else self.since - diagnosis.OF_BEGINNINGS

    @property
    def unsure(self) -> tuple[Ack, ...]:
        """The acks that may or may not have taken effect."""
        return self.stray + tuple(ack for acks in self.grouped.values() for ack in acks)

    def on_each(
        self,
        change: Callable[[Acked], Acked],
        at: Interval,
        exercised: Iterable[str] = (),
        deviating: Callable[[Acked], Iterable[Labelled]] = lambda _: (),
        *,
        is_confirmed: bool = False,
        is_individual: bool = False,
        is_placing: bool = False,
    ) -> Cursor:
        """The cursor after a change of its state. ``deviating``: the states that deviations make of a state instead.

        ``is_confirmed``, ``is_individual``, ``is_placing``: as of a :class:`Moment`.
        """
        after = frozenset(change(state) for state in self.possible)
        before = self.labelled()
        instead = ((other, together(ways, also)) for state, ways in before for other, also in deviating(state))
        by_deviation = chain(((change(state), ways) for state, ways in self.deviating.items()), instead)
        moment = Moment(at, after, is_confirmed=is_confirmed, is_individual=is_individual, is_placing=is_placing)
        return replace(
            self.with_ledger(at, surely=_entries(after).isdisjoint(_entries(self.possible))),
            possible=after,
            past=self.past if after == self.possible else self.past.then(moment),
            since=self.since.union(exercised),
            is_flushed=False,
            is_unloaded=False,
            deviating=only_by_deviation(after, by_deviation),
        )

    def with_ledger(self, at: Interval, *, surely: bool) -> Cursor:
        """The cursor after a change that opens its own ledger, or may open it, if it has none."""
        return replace(
            self,
            ledger_since_ms=self.ledger_since_ms if self.ledger_since_ms is not None else at.invoked_ms,
            opens_ms=self.opens_ms if self.is_requested else at.completed_ms,
            is_requested=self.is_requested or surely,
        )

    def with_open_ledger(self) -> Cursor:
        """The cursor after a write to its ledger, which is open by then."""
        return replace(self, opens_ms=None, is_requested=True)

    def reloaded(self) -> Cursor:
        """The cursor after its topic was reloaded: without an open ledger, with new counts."""
        return replace(
            self.without_consumers(),
            ledger_since_ms=None,
            opens_ms=None,
            is_requested=False,
            by_administrators=0,
        )

    def without_consumers(self) -> Cursor:
        """The cursor when none of its messages is pending at a consumer."""
        return replace(self, taken_back=frozenset())

    def observed(self, fit: Callable[[Acked], Acked | None], known: frozenset[str]) -> Allowed[Cursor] | Broken:
        """The cursor after an observation. ``fit`` refines a state that fits the observation, and returns None if not.

        If only states fit that deviations make possible, these were observed.
        """
        fitting = frozenset(fitted for state in self.possible if (fitted := fit(state)) is not None)
        others = ((fit(state), ways) for state, ways in self.deviating.items())
        deviating = merged((fitted, ways) for fitted, ways in others if fitted is not None)
        if fitting:
            return Allowed(replace(self, possible=fitting, deviating=only_by_deviation(fitting, deviating.items())))
        if not deviating:
            return diagnosis.for_state(self.suspects, "")
        shown = simplest((way for ways in deviating.values() for way in ways), known)
        states = frozenset(state for state, ways in deviating.items() if shown in ways)
        rest = ((state, minimal(way - shown for way in ways)) for state, ways in deviating.items())
        taken_back = self.taken_back if BATCH_INDEX_ACKS_OVERWRITTEN not in shown else self.taken_back | self.possible
        after = replace(self, possible=states, deviating=only_by_deviation(states, rest), taken_back=taken_back)
        if BATCH_INDEX_ACKS_NOT_RECOVERED in shown:  # nor does a kill bring back what the unload lost
            past = (
                replace(m, states=frozenset(s.without_parts(self.possible, states) for s in m.states))
                for m in self.past
            )
            after = replace(after, past=Row.of(*past))
        # It is not known whether this state opened a ledger, because another state was assumed.
        return required([shown], replace(after, is_requested=False), known, exercised=self.since)


def only_by_deviation(possible: frozenset[Acked], labelled: Iterable[Labelled]) -> Map[Acked, Ways]:
    """Of these states, those that are not possible without a deviation."""
    return Map(merged((state, ways) for state, ways in labelled if state not in possible))


def with_grouped(cursor: Cursor, consumer: str, ack: Ack, log: TopicLog) -> Cursor:
    """A client was given an ack, and may group it (ACK-11). Clients of other consumers may send theirs before it."""
    mine = cursor.grouped.get(consumer, ())
    deviating = list(cursor.deviating.items())
    can_deviate = ack.cumulative or cursor.taken_back
    others = [acks for other, acks in cursor.grouped.items() if other != consumer and can_deviate]
    for state in cursor.possible:
        sent = (_with_all(acks[:count], state, log) for acks in others for count in range(1, 1 + len(acks)))
        for before in (state, *sent):
            deviating += ack.deviating(before, log, cursor.taken_back)
    grouped = cursor.grouped.set(consumer, (*mine, ack))
    return replace(cursor, grouped=grouped, deviating=only_by_deviation(cursor.possible, deviating))


def _with_all(acks: Iterable[Ack], state: Acked, log: TopicLog) -> Acked:
    for ack in acks:
        state = ack.on(state, log)
    return state


def maybe_sent(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval) -> Cursor:
    """An ack may have been sent on a connection that has ended. The next observation shows whether it took effect."""
    after = cursor.on_each(lambda one: ack.on(one, log), at, (), lambda one: ack.deviating(one, log, cursor.taken_back))
    states = cursor.possible | after.possible
    return replace(
        cursor.with_ledger(at, surely=False),
        possible=states,
        past=cursor.past
        if states == cursor.possible
        else cursor.past.then(Moment(at, states, is_individual=not ack.cumulative)),
        since=cursor.since | {"ACK-11"},
        is_flushed=False,
        is_unloaded=False,
        deviating=only_by_deviation(states, chain(after.deviating.items(), cursor.deviating.items())),
    )


@carries("ACK-11")
def closed(cursor: Cursor, consumer: str, log: TopicLog, at: Interval) -> Cursor:
    """A consumer closed gracefully. Its client sent the grouped acks first."""
    acks = cursor.grouped.get(consumer, ())
    if not acks:
        return cursor
    cursor = replace(cursor, grouped=cursor.grouped.delete(consumer))

    def taking_back(state: Acked) -> Iterator[Labelled]:
        after = state
        for ack in acks:
            after = next((one for one, _ in ack.deviating(after, log, cursor.taken_back)), ack.on(after, log))
        # The first acks may have been sent before those that a deviation took back.
        later = range(1, len(acks)) if state in cursor.deviating else ()
        return ((one, OVERWRITTEN) for one in (after, *(_with_all(acks[first:], state, log) for first in later)))

    return cursor.on_each(lambda state: _with_all(acks, state, log), at, ("ACK-11",), taking_back)


@carries("ACK-11")
def crashed(cursor: Cursor, consumer: str) -> Cursor:
    """A consumer crashed. Grouped acks are lost unless the client had sent them."""
    acks = cursor.grouped.get(consumer, ())
    if not acks:
        return cursor
    grouped = cursor.grouped.delete(consumer)
    return replace(cursor, grouped=grouped, stray=cursor.stray + acks, since=cursor.since | {"ACK-11"})


def is_opening(cursor: Cursor, at: Interval) -> bool:
    """Whether a cursor's ledger was requested just now, and may not be open yet."""
    return cursor.opens_ms is not None and cursor.opens_ms >= at.invoked_ms - OPENING_MS


def _closed_while_opening(cursor: Cursor) -> Iterator[Labelled]:
    """The states that a cursor persists if closed while its ledger opens: an outdated mark-delete, current ranges."""
    outdated = [(state.mark_delete, BY_DOCUMENT) for moment in cursor.past for state in moment.states]
    outdated += [(state.mark_delete, ways) for state, ways in cursor.lost_before.items()]
    for state, ways in cursor.labelled():
        for mark_delete, before in merged(outdated).items():
            if mark_delete < state.mark_delete:
                race = together(ways, before, by(UNLOAD_WHILE_CURSOR_LEDGER_OPENS))
                yield replace(state, mark_delete=mark_delete), race


@carries("ACK-10")
def unloaded(cursor: Cursor, at: Interval) -> Cursor:
    """The topic was unloaded gracefully, which persists the whole state."""
    past = Row.of(Moment(at, cursor.possible))
    persisted = list(cursor.labelled())
    if is_opening(cursor, at):
        persisted += _closed_while_opening(cursor)
    lost = [(replace(state, parts=Bits()), together(ways, PARTS_LOST)) for state, ways in persisted if state.parts]
    if len(cursor.past) == 1:  # closing a cursor persists nothing if there was no ack since it was created
        created = by(CREATED_CURSOR_PERSISTED_AT_LATEST)
        lost += [(state, created) for state, ways in cursor.past[0].instead.items() if created <= ways]
    since = cursor.since | {"ACK-10"} | _of_parts(cursor.possible)
    deviating = only_by_deviation(cursor.possible, (*persisted, *lost))
    return replace(
        cursor.reloaded(),
        past=past,
        since=since,
        is_flushed=True,
        is_unloaded=True,
        was_opening=is_opening(cursor, at),
        deviating=deviating,
        lost_before=deviating,
    )


@carries("ACK-08", "ACK-15")
def flushed(cursor: Cursor, persisting: Persisting) -> Cursor:
    """The harness waited until the state was persisted, except for the latest acks of parts of batches.

    Nothing shows when those are persisted, so with a rate limit the model assumes it at the end of the interval.
    """
    past = tuple(cursor.past)
    past = past[_last(len(past), lambda n: _changes_entries(past, n)) :]
    if not persisting.interval_ms:
        past = (*past[:-1], replace(past[-1], is_confirmed=True))
    return replace(cursor, past=Row.of(*past), is_flushed=True)


@carries("ACK-08", "ACK-09", "ACK-15", "ACK-16")
def killed(cursor: Cursor, at: Interval, persisting: Persisting, log: TopicLog) -> Cursor:
    """The broker was killed, so the state is one that was persisted.

    It is the last one that surely was, or a later one. A state that was confirmed as persisted surely was. An ack
    persists its state, unless another write happened within the interval before it. The flush persists the last state.
    Where that one is the position at which the cursor was placed, whatever is not there any more breaks ACK-16.
    """
    past = tuple(cursor.past)
    surely = _last(len(past), lambda n: past[n].is_confirmed or _is_persisted(past, n, at.invoked_ms, persisting))
    states = frozenset(mixed(past[surely:]))
    bounded = {"ACK-08"} if surely or cursor.is_flushed else frozenset[str]()
    placed = {"ACK-16"} if past[surely].is_placing else frozenset[str]()
    of_parts = (state for state in states if len(state.parts) > 1)
    deviating = chain(
        cursor.deviating.items(),
        _not_recovered(cursor, states),
        _not_persisted(past, surely, at, persisting),
        past[0].instead.items() if surely == 0 else (),
        ((state.with_parts_of_first(log), by(PARTIAL_ACKS_PERSISTED_AS_FIRST)) for state in of_parts),
    )
    return replace(
        cursor.reloaded(),
        possible=states,
        past=Row.of(Moment(at, states)),
        stray=cursor.unsure,
        grouped=Map(),
        since=cursor.since | {"ACK-09"} | bounded | placed | _of_parts(states),
        is_unloaded=False,
        lost_before=Map(),
        deviating=only_by_deviation(states, deviating),
    )


def _of_parts(states: Iterable[Acked]) -> frozenset[str]:
    """ACK-15 is exercised if parts of batches are acknowledged."""
    return frozenset({"ACK-15"}) if any(state.parts for state in states) else frozenset()


def _not_recovered(cursor: Cursor, states: Iterable[Acked]) -> Iterator[Labelled]:
    """In releases that deviate, acks of parts of batches that an unload lost stay lost after a kill."""
    for state in states:
        for one, ways in cursor.by(BATCH_INDEX_ACKS_NOT_RECOVERED):
            parts = [(position, bits & one.parts[position]) for position, bits in state.parts.items()]
            yield replace(state, parts=state.parts.put(parts)), ways


def _not_persisted(past: Sequence[Moment], surely: int, at: Interval, persisting: Persisting) -> Iterator[Labelled]:
    """The possible states in releases that persist too little, by deviation.

    They lose individual acks of parts of batches while no entry after mark-delete is acknowledged, and a skip that the
    rate limiter rejects.
    """

    def is_written(number: int) -> bool:
        return number > 0 and not _is_passed_over(past, number)

    def is_persisted(number: int) -> bool:
        is_confirmed = past[number].is_confirmed and not persisting.interval_ms and is_written(number)
        return is_confirmed or _is_persisted(past, number, at.invoked_ms, persisting, is_written)

    first = _last(len(past), is_persisted)
    lost = range(first + 1, surely + 1)
    has_skipped = persisting.interval_ms > 0 and any(past[number].is_confirmed for number in lost)
    there = _entries(frozenset(mixed(past[surely:])))
    for state in mixed(past[first:]):
        if has_skipped and _entries(frozenset({state})).isdisjoint(there):
            yield state, by(SKIP_RATE_LIMITED)
        elif any(_is_passed_over(past, number) for number in lost):
            yield state, by(PARTIAL_ACKS_NOT_PERSISTED)


def mixed(past: Sequence[Moment]) -> Iterator[Acked]:
    """The states that may have been persisted: each of these, or an earlier mark-delete with the ranges of a later one.

    Brokers write the latter as the first entry of a cursor's ledger. It contains only acknowledged entries.
    """
    for number, moment in enumerate(past):
        for earlier in past[: number + 1]:
            for before in earlier.states:
                yield from (replace(state, mark_delete=before.mark_delete) for state in moment.states)
        yield from moment.states


def _last(count: int, holds: Callable[[int], bool]) -> int:
    """The last number below ``count`` for which this holds; 0 if there is none."""
    return next((number for number in reversed(range(count)) if holds(number)), 0)


def _is_persisted(
    past: Sequence[Moment],
    number: int,
    killed_ms: float,
    persisting: Persisting,
    is_written: Callable[[int], bool] = lambda number: number > 0,
) -> bool:
    """Whether a moment's state is persisted by now. ``is_written``: whether it is written at all, given time."""
    if number and not is_written(number):
        return False
    by_ms = killed_ms - SLACK_MS
    at_ms = past[number].at.completed_ms
    if at_ms + persisting.interval_ms + persisting.flush_ms <= by_ms:
        return True
    if not persisting.interval_ms:
        return at_ms <= by_ms
    later = (past[n].at for n in range(number + 1, len(past)) if is_written(n))
    return any(one.completed_ms <= by_ms and at_ms + persisting.interval_ms <= one.invoked_ms for one in later)


def _changes_entries(past: Sequence[Moment], number: int) -> bool:
    """Whether whole entries were acknowledged, not only parts of batches."""
    return number > 0 and _entries(past[number].states) != _entries(past[number - 1].states)


def _is_passed_over(past: Sequence[Moment], number: int) -> bool:
    """Whether only parts of batches were acknowledged, individually, with no entry after mark-delete acknowledged."""
    moment = past[number]
    is_of_parts = number > 0 and moment.is_individual and not _changes_entries(past, number)
    return is_of_parts and any(not len(state.words) for state in moment.states)


def _entries(states: frozenset[Acked]) -> frozenset[tuple[Position, Bits[Word]]]:
    return frozenset((state.mark_delete, state.words) for state in states)
