"""One subscription as an observer holds it: the states that it may be in, and those that may have been persisted.

As a rule there is one state. There are more after a kill, until something is observed (ACK-09), and what a client holds
back (ACK-11) may or may not have taken effect: the state is then one between that without and that with all of it.
Times are given, in milliseconds since the example began; nothing here has a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from immutables import Map

from model.cursors import diagnosis
from model.cursors.acked import Acked, Word, acknowledge_all, acknowledge_up_to, overwritten, with_entries
from model.cursors.bits import Bits
from model.cursors.log import Place, TopicLog
from model.cursors.row import Row
from model.deviations import DEVIATIONS, preferred
from model.deviations.cursors import (
    BATCH_INDEX_ACKS_NOT_RECOVERED,
    BATCH_INDEX_ACKS_OVERWRITTEN,
    PARTIAL_ACKS_NOT_PERSISTED,
    RESET_KEEPS_FORMER_RANGES,
    SKIP_RATE_LIMITED,
    TERMINATED_LAST_LEDGER_NOT_SKIPPED,
    UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
)
from model.judgement import Allowed, Broken
from model.log import Position
from model.rules.catalogue import carries

OPENING_MS = 150.0
"""How long it takes at most to open a cursor's ledger; 5 to 60 were seen."""
SLACK_MS = 2_000.0
"""How long it may take until what is being persisted is persisted; far beyond what was seen."""


@dataclass(frozen=True, slots=True)
class Interval:
    """When an operation was invoked, and when it was completed."""

    invoked_ms: float
    completed_ms: float


@dataclass(frozen=True, slots=True)
class Persisting:
    """How often a cursor is persisted: at most every ``interval_ms`` (0: with every ack), and what was not, at the
    latest after ``flush_ms``. ``stored_ranges``: how many of its ranges the metadata store takes on a move."""

    interval_ms: float
    flush_ms: float
    stored_ranges: int = 1000


@dataclass(frozen=True, slots=True)
class Ack:
    """What one command acknowledges; a cumulative one has one place."""

    places: tuple[Place, ...]
    cumulative: bool = False

    def on(self, state: Acked, log: TopicLog) -> Acked:
        """The state after it."""
        if self.cumulative:
            return acknowledge_up_to(state, log, self.places[0])
        return acknowledge_all(state, log, self.places)

    def besides(self, state: Acked, log: TopicLog) -> Mapping[Acked, str]:
        """What the state may be after it in releases that deviate."""
        if not self.cumulative or self.places[0].batch_index < 0:
            return {}
        return {overwritten(state, log, self.places[0]): BATCH_INDEX_ACKS_OVERWRITTEN}


@dataclass(frozen=True, slots=True)
class Moment:
    """What the state may have been from a time on.

    ``is_confirmed``: it was persisted before that was confirmed, or waited for until it was. ``is_individual``: it came
    of an individual ack. ``with_former``: what may have been persisted instead in releases that persist a reset with
    the ranges of before.
    """

    at: Interval
    states: frozenset[Acked]
    is_confirmed: bool = False
    is_individual: bool = False
    with_former: frozenset[Acked] = frozenset()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A subscription.

    ``possible``: what its state may be. ``held_back``: by consumer, acknowledgments that its client may not have sent;
    ``stray``: those of consumers that are gone. ``past``: since the last state that is surely persisted, and with it,
    what the state was. ``since``: the rules that what happened since it was last read put to the test. ``is_flushed``:
    nothing changed since it was persisted; ``is_moved``: nor since the topic was moved,
    and ``had_ledger``: when it was, the cursor had one of its own.

    For releases that deviate: ``miscounted``: how many entries too few may be counted as its backlog; ``deviating``:
    what the state may be besides, and the name of the deviation that makes it so; ``ledger_since_ms``: since when the
    cursor has a ledger of its own, or is about to (None: its state is in the metadata store); ``by_administrators``:
    how often since then its state was changed by other means than acknowledgments, which no limit holds for;
    ``opens_ms``: when that ledger was asked for, at the latest, and ``is_asked_for``: it surely was;
    ``lost_before``: what the state may have been besides when the topic was loaded; ``taken_back``: what the state was
    thought to be until an acknowledgment was seen to be taken back; consumers may have such messages. ``is_placed``: it
    was created, reset, or moved by a seek, a skip or an expiry, and nothing was acknowledged since. ``stays_at``: where
    mark-delete stays although more is acknowledged after it, because it was recovered like that.
    """

    possible: frozenset[Acked]
    durable: bool = True
    held_back: Map[str, tuple[Ack, ...]] = Map()
    stray: tuple[Ack, ...] = ()
    past: Row[Moment] = Row()
    since: frozenset[str] = frozenset()
    is_flushed: bool = False
    is_moved: bool = False
    had_ledger: bool = True
    miscounted: int = 0
    deviating: Map[Acked, str] = Map()
    ledger_since_ms: float | None = None
    by_administrators: int = 0
    opens_ms: float | None = None
    is_asked_for: bool = False
    lost_before: frozenset[Acked] = frozenset()
    taken_back: frozenset[Acked] = frozenset()
    is_placed: bool = False
    stays_at: Position | None = None

    @property
    def imaginable(self) -> frozenset[Acked]:
        """What its state may be, deviations included."""
        return self.possible.union(self.deviating)

    def is_taken_back(self, place: Place) -> bool:
        """Whether a message was acknowledged before a deviation took that back, so that a consumer may have it."""
        return any(state.has_message(place) for state in self.taken_back)

    @property
    def unsure(self) -> tuple[Ack, ...]:
        """The acknowledgments that may or may not have taken effect."""
        return self.stray + tuple(ack for acks in self.held_back.values() for ack in acks)

    def on_each(
        self,
        change: Callable[[Acked], Acked],
        at: Interval,
        tested: Iterable[str] = (),
        deviating: Callable[[Acked], Mapping[Acked, str]] = lambda _: {},
        *,
        is_confirmed: bool = False,
        is_individual: bool = False,
    ) -> Cursor:
        """The cursor after a change to its state, whichever it was; ``deviating``: what it may come to besides.

        ``is_confirmed``, ``is_individual``: as of a :class:`Moment`.
        """
        after = frozenset(change(state) for state in self.possible)
        besides = {change(state): name for state, name in self.deviating.items()}
        # Of several ways to a state, the one with the fewest deviations counts: it comes last.
        for state in (*self.deviating, *self.possible):
            besides.update({other: self.deviating.get(state, name) for other, name in deviating(state).items()})
        return replace(
            self.with_ledger(at, surely=_entries(after).isdisjoint(_entries(self.possible))),
            possible=after,
            past=self.past
            if after == self.possible
            else self.past.then(Moment(at, after, is_confirmed=is_confirmed, is_individual=is_individual)),
            since=self.since.union(tested),
            is_flushed=False,
            is_moved=False,
            is_placed=False,
            deviating=_besides(after, besides),
        )

    def with_ledger(self, at: Interval, *, surely: bool) -> Cursor:
        """The cursor when it was, or may have been, asked for a ledger of its own, if it has none."""
        return replace(
            self,
            ledger_since_ms=self.ledger_since_ms if self.ledger_since_ms is not None else at.invoked_ms,
            opens_ms=self.opens_ms if self.is_asked_for else at.completed_ms,
            is_asked_for=self.is_asked_for or surely,
        )

    def with_open_ledger(self) -> Cursor:
        """The cursor when something was seen to be persisted to its ledger, which is open by then."""
        return replace(self, opens_ms=None, is_asked_for=True)

    def reloaded(self) -> Cursor:
        """The cursor when its topic was loaded anew: it has no ledger that it can write to, and counts from new."""
        return replace(
            self.without_consumers(),
            ledger_since_ms=None,
            opens_ms=None,
            is_asked_for=False,
            by_administrators=0,
            miscounted=0,
        )

    def without_consumers(self) -> Cursor:
        """The cursor when nobody has any of its messages."""
        return replace(self, taken_back=frozenset())

    def observed(self, fit: Callable[[Acked], Acked | None], known: frozenset[str]) -> Allowed[Cursor] | Broken:
        """The cursor once it was seen: what ``fit`` makes of the states that fit what was seen, None for others.

        If only states fit that a deviation explains, it was seen.
        """
        fitting = frozenset(fitted for state in self.possible if (fitted := fit(state)) is not None)
        besides = {fitted: name for state, name in self.deviating.items() if (fitted := fit(state)) is not None}
        if fitting:
            return Allowed(replace(self, possible=fitting, deviating=_besides(fitting, besides)))
        if not besides:
            return diagnosis.for_state(self.since, "")
        name = preferred(besides.values(), known)
        if name not in known:
            return DEVIATIONS[name].broken()
        shown = frozenset(state for state, one in besides.items() if one == name)
        takes_back = name in (BATCH_INDEX_ACKS_OVERWRITTEN, TERMINATED_LAST_LEDGER_NOT_SKIPPED)
        taken_back = self.taken_back | self.possible if takes_back else self.taken_back
        after = replace(self, possible=shown, deviating=_besides(shown, besides), taken_back=taken_back)
        # Whether this state asked for a ledger is not known: what was reckoned with was another.
        return Allowed(replace(after, is_asked_for=False), (), (name,))


def _besides(possible: frozenset[Acked], deviating: Mapping[Acked, str]) -> Map[Acked, str]:
    """What is possible by deviations only."""
    return Map({state: name for state, name in deviating.items() if state not in possible})


def created(state: Acked, at: Interval, *, durable: bool = True) -> Cursor:
    """A subscription that was just created; creating it persists it."""
    states = frozenset({state})
    return Cursor(states, durable, past=Row.of(Moment(at, states)), is_placed=True)


def set_anew(cursor: Cursor, state: Acked, log: TopicLog, at: Interval) -> Cursor:
    """The subscription was set to a state by an administrator or a seek: which is persisted before it is confirmed."""
    states = frozenset({state})
    beyond = max(len(one.beyond()) for one in cursor.possible)
    return replace(
        cursor.without_consumers().with_ledger(at, surely=True).with_open_ledger(),
        possible=states,
        past=Row.of(Moment(at, states, with_former=frozenset(_with_former(cursor, state.mark_delete, log)))),
        stray=(),
        held_back=Map(),
        since=frozenset({"ACK-01"}),
        miscounted=cursor.miscounted + beyond,
        by_administrators=cursor.by_administrators + 1,
        lost_before=frozenset(),
        is_moved=False,
        is_placed=True,
        deviating=Map(),
    )


def _with_former(cursor: Cursor, mark_delete: Position, log: TopicLog) -> Iterator[Acked]:
    """What a cursor persists that is reset before it forgets its ranges: a mark-delete with the ranges of before.

    Those up to an earlier mark-delete it may have forgotten, when that was persisted.
    """
    purged = {state.mark_delete for moment in cursor.past for state in moment.states}
    for state in cursor.possible:
        for first in {max(mark_delete, one) for one in (state.mark_delete, *purged)}:
            kept = [position for position in log.behind(first) if state.has(position)]
            after = with_entries(Acked(mark_delete), log, kept)
            yield replace(after, parts=state.parts.put([(at, 0) for at in state.parts if after.has(at)]))


def sent_back(cursor: Cursor, consumer: str, ack: Ack, log: TopicLog) -> Cursor:
    """A client was given an acknowledgment, and may hold it back (ACK-11)."""
    mine = cursor.held_back.get(consumer, ())
    besides = dict(cursor.deviating)
    for state in cursor.possible:
        besides.update(ack.besides(state, log))
    held_back = cursor.held_back.set(consumer, (*mine, ack))
    return replace(cursor, held_back=held_back, deviating=_besides(cursor.possible, besides))


def perhaps(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval) -> Cursor:
    """An acknowledgment was sent, or not, on a connection that has ended: it has taken effect, or never will.

    What is seen next tells.
    """
    after = cursor.on_each(lambda one: ack.on(one, log), at, (), lambda one: ack.besides(one, log))
    states = cursor.possible | after.possible
    return replace(
        cursor.with_ledger(at, surely=False),
        possible=states,
        past=cursor.past
        if states == cursor.possible
        else cursor.past.then(Moment(at, states, is_individual=not ack.cumulative)),
        since=cursor.since | {"ACK-11"},
        is_flushed=False,
        is_moved=False,
        deviating=_besides(states, {**after.deviating, **cursor.deviating}),
    )


@carries("ACK-11")
def closed(cursor: Cursor, consumer: str, log: TopicLog, at: Interval) -> Cursor:
    """A consumer closed in good order: what its client held back was sent first."""
    acks = cursor.held_back.get(consumer, ())
    if not acks:
        return cursor
    cursor = replace(cursor, held_back=cursor.held_back.delete(consumer))

    def flushed(state: Acked) -> Acked:
        for ack in acks:
            state = ack.on(state, log)
        return state

    def taking_back(state: Acked) -> Mapping[Acked, str]:
        for ack in acks:
            state = next(iter(ack.besides(state, log)), None) or ack.on(state, log)
        return {state: BATCH_INDEX_ACKS_OVERWRITTEN}

    return cursor.on_each(flushed, at, ("ACK-11",), taking_back)


@carries("ACK-11")
def crashed(cursor: Cursor, consumer: str) -> Cursor:
    """A consumer died: what its client held back may be lost, and is lost unless it had been sent."""
    acks = cursor.held_back.get(consumer, ())
    if not acks:
        return cursor
    held_back = cursor.held_back.delete(consumer)
    return replace(cursor, held_back=held_back, stray=cursor.stray + acks, since=cursor.since | {"ACK-11"})


def is_opening(cursor: Cursor, at: Interval) -> bool:
    """Whether a cursor's ledger was only just asked for, and may not be open."""
    return cursor.opens_ms is not None and cursor.opens_ms >= at.invoked_ms - OPENING_MS


def _closed_while_opening(cursor: Cursor) -> Iterator[Acked]:
    """What a cursor persists that is closed while its ledger opens: an earlier mark-delete, with the ranges of now."""
    earlier = {state.mark_delete for moment in cursor.past for state in moment.states}
    earlier.update(state.mark_delete for state in cursor.lost_before)
    for state in cursor.imaginable:
        yield from (replace(state, mark_delete=one) for one in earlier if one < state.mark_delete)


@carries("ACK-10")
def moved(cursor: Cursor, at: Interval) -> Cursor:
    """The topic was closed in good order, which persists the state as it is: nothing is lost."""
    past = Row.of(Moment(at, cursor.possible))
    lost = {replace(state, parts=Bits()): BATCH_INDEX_ACKS_NOT_RECOVERED for state in cursor.possible}
    lost.update({replace(state, parts=Bits()): name for state, name in cursor.deviating.items()})
    if is_opening(cursor, at):
        states = tuple(_closed_while_opening(cursor))
        both = (replace(state, parts=Bits()) for state in states)
        lost = (
            dict.fromkeys((*states, *both), UNLOAD_WHILE_CURSOR_LEDGER_OPENS) | lost
        )  # what is lost in any case needs no race
    since = cursor.since | {"ACK-10"} | _of_parts(cursor.possible)
    besides = _besides(cursor.possible, {**lost, **cursor.deviating})
    return replace(
        cursor.reloaded(),
        past=past,
        since=since,
        is_flushed=True,
        is_moved=True,
        had_ledger=cursor.ledger_since_ms is not None,
        deviating=besides,
        lost_before=frozenset(besides),
    )


@carries("ACK-08", "ACK-15")
def flushed(cursor: Cursor, persisting: Persisting) -> Cursor:
    """It was waited until the state is persisted; but for parts of batches that were acknowledged last.

    Nothing shows when those are, so with a rate limit they are persisted when their time is over.
    """
    past = tuple(cursor.past)
    past = past[_last(len(past), lambda n: _changes_entries(past, n)) :]
    if not persisting.interval_ms:
        past = (*past[:-1], replace(past[-1], is_confirmed=True))
    return replace(cursor, past=Row.of(*past), is_flushed=True)


@carries("ACK-08", "ACK-09", "ACK-15", "ACK-16")
def killed(cursor: Cursor, at: Interval, persisting: Persisting) -> Cursor:
    """The broker was killed: the state is one that was persisted.

    It may be the last one that surely was, or any later one. What was confirmed as persisted was. With an ack its state
    is persisted, unless something was within the interval before it. What nothing followed is persisted by the flush.
    """
    past = tuple(cursor.past)
    surely = _last(len(past), lambda n: past[n].is_confirmed or _is_persisted(past, n, at.invoked_ms, persisting))
    states = frozenset(_mixed(past[surely:]))
    bounded = {"ACK-08"} if surely or cursor.is_flushed else frozenset[str]()
    placed = {"ACK-16"} if cursor.is_placed else frozenset[str]()
    besides = {**dict(_not_recovered(cursor, states)), **dict(_not_persisted(past, surely, at, persisting))}
    if surely == 0:
        besides |= dict.fromkeys(past[0].with_former, RESET_KEEPS_FORMER_RANGES)
    return replace(
        cursor.reloaded(),
        possible=states,
        past=Row.of(Moment(at, states)),
        stray=cursor.unsure,
        held_back=Map(),
        since=cursor.since | {"ACK-09"} | bounded | placed | _of_parts(states),
        is_moved=False,
        is_placed=False,
        lost_before=frozenset(),
        deviating=_besides(states, {**besides, **cursor.deviating}),
    )


def _of_parts(states: Iterable[Acked]) -> frozenset[str]:
    """ACK-15, where parts of batches are acknowledged that must still be, or may be."""
    return frozenset({"ACK-15"}) if any(state.parts for state in states) else frozenset()


def _not_recovered(cursor: Cursor, states: Iterable[Acked]) -> Iterator[tuple[Acked, str]]:
    """Parts of batches that an unload lost, in releases that deviate, a kill does not bring back."""
    unloaded = [state for state, name in cursor.deviating.items() if name == BATCH_INDEX_ACKS_NOT_RECOVERED]
    for state in states:
        for one in unloaded:
            parts = [(position, bits & one.parts[position]) for position, bits in state.parts.items()]
            yield replace(state, parts=state.parts.put(parts)), BATCH_INDEX_ACKS_NOT_RECOVERED


def _not_persisted(
    past: Sequence[Moment], surely: int, at: Interval, persisting: Persisting
) -> Iterator[tuple[Acked, str]]:
    """What may be left in releases that persist less than they must: in their own way, each of these may be lost.

    Individual acks of parts of batches, while no entry after mark-delete is acknowledged; and what an administrator
    skipped, if the rate limiter rejects it.
    """

    def is_written(number: int) -> bool:
        return number > 0 and not _is_passed_over(past, number)

    def is_persisted(number: int) -> bool:
        is_confirmed = past[number].is_confirmed and not persisting.interval_ms and is_written(number)
        return is_confirmed or _is_persisted(past, number, at.invoked_ms, persisting, is_written)

    first = _last(len(past), is_persisted)
    lost = range(first + 1, surely + 1)
    has_skipped = persisting.interval_ms > 0 and any(past[number].is_confirmed for number in lost)
    there = _entries(frozenset(_mixed(past[surely:])))
    for state in _mixed(past[first:]):
        if has_skipped and _entries(frozenset({state})).isdisjoint(there):
            yield state, SKIP_RATE_LIMITED
        elif any(_is_passed_over(past, number) for number in lost):
            yield state, PARTIAL_ACKS_NOT_PERSISTED


def _mixed(past: Sequence[Moment]) -> Iterator[Acked]:
    """What may have been persisted of these: each state, or an earlier mark-delete with the ranges of a later state.

    That is what brokers write into a cursor's ledger first, once it is open; nothing is in it that nobody acknowledged.
    """
    for number, moment in enumerate(past):
        for earlier in past[: number + 1]:
            for before in earlier.states:
                yield from (replace(state, mark_delete=before.mark_delete) for state in moment.states)
        yield from moment.states


def _last(count: int, holds: Callable[[int], bool]) -> int:
    """The last of so many numbers of which this holds; 0 if there is none."""
    return next((number for number in reversed(range(count)) if holds(number)), 0)


def _is_persisted(
    past: Sequence[Moment],
    number: int,
    killed_ms: float,
    persisting: Persisting,
    is_written: Callable[[int], bool] = lambda number: number > 0,
) -> bool:
    """Whether a moment's state is persisted by now; ``is_written``: whether one is written at all, if there is time."""
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
    """Whether whole entries were acknowledged then, and not only parts of batches."""
    return number > 0 and _entries(past[number].states) != _entries(past[number - 1].states)


def _is_passed_over(past: Sequence[Moment], number: int) -> bool:
    """Whether parts of batches alone were acknowledged individually, with no entry after mark-delete acknowledged."""
    moment = past[number]
    is_of_parts = number > 0 and moment.is_individual and not _changes_entries(past, number)
    return is_of_parts and any(not len(state.words) for state in moment.states)


def _entries(states: frozenset[Acked]) -> frozenset[tuple[Position, Bits[Word]]]:
    return frozenset((state.mark_delete, state.words) for state in states)
