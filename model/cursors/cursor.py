"""The observer's view of one cursor: its possible states, and those that may have been persisted.

Normally there is one state. After a kill there are several, until the next observation (ACK-09). Grouped acks of a
client (ACK-11) may or may not have taken effect, so the state may include any number of them. Times are arguments, in
milliseconds since the example began. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from model.cursors import diagnosis
from model.cursors.acked import Acked, Word, acknowledge_all, acknowledge_up_to
from model.cursors.bits import Bits
from model.cursors.info import first_ranges
from model.cursors.ledger import NO_LEDGER, CursorLedger, Interval
from model.cursors.log import Place, TopicLog
from model.cursors.row import Row
from model.immutable.map import Map
from model.log import Position
from model.rules.catalogue import carries

SLACK_MS = 2_000.0
"""The longest time that a write of a cursor may take, far longer than any measured."""


@dataclass(frozen=True, slots=True)
class Persisting:
    """How often a cursor is persisted: at most every ``interval_ms`` (0: with every ack), and if dirty, within
    ``flush_ms``. ``stored_ranges``: how many ranges the metadata store takes on an unload. ``persisted_ranges``: how
    many are persisted at all."""

    interval_ms: float
    flush_ms: float
    stored_ranges: int = 1000
    persisted_ranges: int = 10_000


@dataclass(frozen=True, slots=True)
class Ack:
    """The places that one command acknowledges; a cumulative ack has one."""

    places: tuple[Place, ...]
    cumulative: bool = False

    def on(self, state: Acked, log: TopicLog) -> Acked:
        if self.cumulative:
            return acknowledge_up_to(state, log, self.places[0])
        return acknowledge_all(state, log, self.places)


@dataclass(frozen=True, slots=True)
class Moment:
    """The possible states from a time on.

    ``is_confirmed``: the broker persisted the state before it answered, or the harness waited until it did.
    ``is_individual``: it resulted from an individual ack. ``is_placing``: from no ack, but from creating, resetting,
    seeking, skipping or expiring.
    """

    at: Interval
    states: frozenset[Acked]
    is_confirmed: bool = False
    is_individual: bool = False
    is_placing: bool = False


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
    """The ledger of the cursor may not have been open then, and may have the state now."""
    ledger: CursorLedger = NO_LEDGER
    begins_after: frozenset[Position] = frozenset()
    """The last entries of the ledgers that were deleted, perhaps, when it was created."""

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
        *,
        is_confirmed: bool = False,
        is_individual: bool = False,
        is_placing: bool = False,
    ) -> Cursor:
        """The cursor after a change of its state. ``is_confirmed``, ``is_individual``, ``is_placing``: as of a
        :class:`Moment`."""
        after = frozenset(change(state) for state in self.possible)
        moment = Moment(at, after, is_confirmed=is_confirmed, is_individual=is_individual, is_placing=is_placing)
        return replace(
            self,
            possible=after,
            ledger=self.ledger.changed(at, surely=_entries(after).isdisjoint(_entries(self.possible))),
            past=self.past if after == self.possible else self.past.then(moment),
            since=self.since.union(exercised),
            is_flushed=False,
            is_unloaded=False,
        )

    def observed(self, fit: Callable[[Acked], Acked | None]) -> Cursor | None:
        """The cursor after an observation. ``fit`` refines a state that fits the observation, and returns None if not.
        None: no possible state fits."""
        fitting = frozenset(fitted for state in self.possible if (fitted := fit(state)) is not None)
        return replace(self, possible=fitting) if fitting else None


def created(state: Acked, at: Interval, *, others: frozenset[Acked] = frozenset(), durable: bool = True) -> Cursor:
    """A new subscription; creating it persists it. ``others``: states that are possible as well."""
    states = frozenset({state}) | others
    return Cursor(states, durable, past=Row.of(Moment(at, states, is_placing=True)))


def reset(cursor: Cursor, state: Acked, at: Interval, *, others: frozenset[Acked] = frozenset()) -> Cursor:
    """An administrator or a seek reset the subscription. The broker persists a reset before it confirms it. ``others``:
    states that are possible as well."""
    states = frozenset({state}) | others
    return replace(
        cursor,
        possible=states,
        ledger=cursor.ledger.changed(at, surely=True).opened().administered(),
        past=Row.of(Moment(at, states, is_placing=True)),
        stray=(),
        grouped=Map(),
        since=frozenset({"ACK-01"}),
        is_unloaded=False,
    )


def either(cursors: Sequence[Cursor], at: Interval) -> Cursor:
    """One of these, after requests of administrators: the broker persisted their effects before it confirmed them."""
    states = frozenset(state for one in cursors for state in one.possible)
    return replace(
        cursors[0],
        possible=states,
        past=Row.of(Moment(at, states, is_confirmed=True, is_placing=True)),
        stray=tuple(dict.fromkeys(ack for one in cursors for ack in one.stray)),
        since=frozenset(rule for one in cursors for rule in one.since),
        begins_after=frozenset(position for one in cursors for position in one.begins_after),
    )


def with_grouped(cursor: Cursor, consumer: str, ack: Ack) -> Cursor:
    """A client was given an ack, and may group it (ACK-11)."""
    grouped = cursor.grouped.set(consumer, (*cursor.grouped.get(consumer, ()), ack))
    return replace(cursor, grouped=grouped)


def with_all(acks: Iterable[Ack], state: Acked, log: TopicLog) -> Acked:
    """The state after all of these acks."""
    for ack in acks:
        state = ack.on(state, log)
    return state


def maybe_sent(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval) -> Cursor:
    """An ack may have been sent on a connection that has ended. The next observation shows whether it took effect."""
    states = cursor.possible.union(ack.on(one, log) for one in cursor.possible)
    return replace(
        cursor,
        possible=states,
        ledger=cursor.ledger.changed(at, surely=False),
        past=cursor.past
        if states == cursor.possible
        else cursor.past.then(Moment(at, states, is_individual=not ack.cumulative)),
        since=cursor.since | {"ACK-11"},
        is_flushed=False,
        is_unloaded=False,
    )


@carries("ACK-11")
def closed(cursor: Cursor, consumer: str, log: TopicLog, at: Interval) -> Cursor:
    """A consumer closed gracefully. Its client sent the grouped acks first."""
    acks = cursor.grouped.get(consumer, ())
    if not acks:
        return cursor
    cursor = replace(cursor, grouped=cursor.grouped.delete(consumer))
    return cursor.on_each(lambda state: with_all(acks, state, log), at, ("ACK-11",))


@carries("ACK-11")
def crashed(cursor: Cursor, consumer: str) -> Cursor:
    """A consumer crashed. Grouped acks are lost unless the client had sent them."""
    acks = cursor.grouped.get(consumer, ())
    if not acks:
        return cursor
    grouped = cursor.grouped.delete(consumer)
    return replace(cursor, grouped=grouped, stray=cursor.stray + acks, since=cursor.since | {"ACK-11"})


def cut_off(cursor: Cursor) -> Cursor:
    """The connections of all clients ended. Acks that passed to the broker may have taken effect."""
    return replace(cursor, stray=cursor.unsure, grouped=Map())


@carries("ACK-10", "ACK-21")
def unloaded(cursor: Cursor, at: Interval, persisted_ranges: int) -> Cursor:
    """The topic was unloaded gracefully, which persists the whole state, up to so many ranges."""
    possible, beyond = _within(cursor.possible, persisted_ranges)
    return replace(
        cursor,
        possible=possible,
        past=Row.of(Moment(at, possible)),
        since=cursor.since | {"ACK-10"} | _of_parts(cursor.possible) | beyond,
        is_flushed=True,
        is_unloaded=True,
        was_opening=cursor.ledger.is_opening(at),
        ledger=NO_LEDGER,
    )


@carries("ACK-08", "ACK-15")
def flushed(cursor: Cursor, persisting: Persisting) -> Cursor:
    """The harness waited until the state was persisted, except for the latest acks of parts of batches.

    Nothing shows when those are persisted, so with a rate limit the model assumes it at the end of the interval.
    """
    past = tuple(cursor.past)
    past = past[_last(len(past), lambda n: changes_entries(past, n)) :]
    if not persisting.interval_ms:
        past = (*past[:-1], replace(past[-1], is_confirmed=True))
    return replace(cursor, past=Row.of(*past), is_flushed=True)


@carries("ACK-08", "ACK-09", "ACK-15", "ACK-16", "ACK-21")
def killed(cursor: Cursor, at: Interval, persisting: Persisting) -> Cursor:
    """The broker was killed, so the state is one that was persisted.

    It is the last one that surely was, or a later one. A state that was confirmed as persisted surely was. An ack
    persists its state, unless another write happened within the interval before it. The flush persists the last state.
    Where that one is the position at which the cursor was placed, whatever is not there any more breaks ACK-16.
    """
    past = tuple(cursor.past)
    surely = _last(len(past), lambda n: past[n].is_confirmed or _is_persisted(past, n, at.invoked_ms, persisting))
    states, beyond = _within(frozenset(mixed(past[surely:])), persisting.persisted_ranges)
    bounded = {"ACK-08"} if surely or cursor.is_flushed else frozenset[str]()
    placed = {"ACK-16"} if past[surely].is_placing else frozenset[str]()
    return replace(
        cut_off(cursor),
        possible=states,
        past=Row.of(Moment(at, states)),
        ledger=NO_LEDGER,
        since=cursor.since | {"ACK-09"} | bounded | placed | _of_parts(states) | beyond,
        is_unloaded=False,
    )


def _of_parts(states: Iterable[Acked]) -> frozenset[str]:
    """ACK-15 is exercised if parts of batches are acknowledged."""
    return frozenset({"ACK-15"}) if any(state.parts for state in states) else frozenset()


def _within(states: frozenset[Acked], persisted_ranges: int) -> tuple[frozenset[Acked], frozenset[str]]:
    """What may be persisted of these states with the rule that this exercises: the first ranges, and maybe more."""
    cut_short = frozenset(one for state in states for one in first_ranges(state, persisted_ranges))
    return (states | cut_short, frozenset({"ACK-21"})) if cut_short else (states, frozenset())


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


def _is_persisted(past: Sequence[Moment], number: int, killed_ms: float, persisting: Persisting) -> bool:
    """Whether a moment's state is persisted by now."""
    by_ms = killed_ms - SLACK_MS
    at_ms = past[number].at.completed_ms
    if at_ms + persisting.interval_ms + persisting.flush_ms <= by_ms:
        return True
    if not persisting.interval_ms:
        return at_ms <= by_ms
    later = (past[n].at for n in range(number + 1, len(past)))
    return any(one.completed_ms <= by_ms and at_ms + persisting.interval_ms <= one.invoked_ms for one in later)


def changes_entries(past: Sequence[Moment], number: int) -> bool:
    """Whether whole entries were acknowledged, not only parts of batches."""
    return number > 0 and _entries(past[number].states) != _entries(past[number - 1].states)


def _entries(states: frozenset[Acked]) -> frozenset[tuple[Position, Bits[Word]]]:
    return frozenset((state.mark_delete, state.words) for state in states)
