"""Deduplication observed by its reference alone: reference states of one producer that are still possible.

It is a second observer beside :mod:`model.deduplication.observer`, with which it must agree, and a measure of what that
would cost if it were derived from the reference. A state is a topic of :mod:`model.deduplication.reference` with one
producer. What is unknown forks states (how many entries reached the broker, which writes are done or failed), what is
observed filters them, and a state that another one comes to by itself is left out. None left: a rule is broken.

It knows the document only: none of the deviations, no entry whose answer came after deduplication was switched on, and
no diagnosis.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as with_changes

from msgspec import Struct
from msgspec.structs import replace

from model.deduplication import reference
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, Circumstances
from model.deduplication.reference import Topic
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored, Unknown
from model.log import Position
from model.vocabulary import Entry

PRODUCER, SESSION = "p", "s"
"""The one producer of a state, and its connection while it sends."""
WILL_FAIL = "fails"
"""Instead of a session: the producer learned that this write failed. A position: that it was stored there."""
UNLIMITED = 10**6


class Listening(enum.Enum):
    """Whether the broker still accepts the entries of this send."""

    YES = enum.auto()
    CUT = enum.auto()
    """The connection ended before it."""
    CLOSED = enum.auto()
    """The broker closed the producer because a write failed."""


class State(Struct, frozen=True, cache_hash=True, gc=False):
    """A topic, the positions of its entries where they are known, and whether the writes in flight may fail."""

    topic: Topic
    positions: tuple[Position | None, ...] = ()
    listening: Listening = Listening.YES
    may_fail: bool = False


States = frozenset[State]


def fresh(*, deduplication: bool) -> States:
    """A producer about which nothing is known."""
    topic = reference.new_topic(deduplication=deduplication, entries_per_ledger=UNLIMITED, max_producers=UNLIMITED)
    return frozenset({State(topic)})


# ------------------------------------------------------------------------------------------- progress of writes


def progress(state: State, *, may_fail: bool) -> Iterator[State]:
    """The state, and the states after writes in flight complete, one after the other, or fail."""
    now: State | None = state
    while now is not None:
        yield now
        if not now.topic.in_flight:
            return
        if may_fail or now.may_fail or now.topic.in_flight[0].session == WILL_FAIL:
            yield from _failed(now)
        now = _stored(now)


def _stored(state: State) -> State | None:
    told = state.topic.in_flight[0].session
    if told == WILL_FAIL:
        return None
    position = None if told is None else Position.parse(told)
    last = next((known for known in reversed(state.positions) if known is not None), None)
    if position is not None and last is not None and position <= last:
        return None
    topic, _ = reference.complete_next_write(state.topic)
    return replace(state, topic=topic, positions=(*state.positions, position))


def _failed(state: State) -> Iterator[State]:
    """The oldest write fails and those after it with it, unless the producer learned that one was stored."""
    topic = state.topic
    if all(write.session in (None, WILL_FAIL) for write in topic.in_flight):
        while topic.in_flight:
            topic, _ = reference.fail_next_write(topic)
        yield replace(state, topic=topic, listening=Listening.CLOSED)


def _simplest(states: Iterable[State]) -> States:
    """The states without those that another one reaches by itself."""
    found = {replace(s, may_fail=s.may_fail and bool(s.topic.in_flight)) for s in states}
    found -= {replace(s, may_fail=False) for s in found if s.may_fail}
    later = {one for s in found if s.topic.in_flight for one in progress(s, may_fail=False) if one != s}
    return frozenset(found - later - {replace(one, may_fail=False) for one in later})


# ------------------------------------------------------------------------------------------------- observations


def sent(states: States, entry: Entry, answer: Answer, around: Circumstances) -> States:
    """An entry was sent, and this answer arrived."""
    before = list(states)
    if around.by_pulsar_client and around.enabled and not isinstance(answer, Unknown):
        tried = (after for state in states for after in _sent_once(state, entry, Unknown("an earlier try"), around))
        before += [replace(after, listening=Listening.YES) for after in tried]
    return _simplest(after for state in before for after in _sent_once(state, entry, answer, around))


def _sent_once(state: State, entry: Entry, answer: Answer, around: Circumstances) -> Iterator[State]:
    if state.listening is Listening.CUT:
        yield from (state,) if isinstance(answer, Unknown) else ()
        return
    for now in progress(state, may_fail=around.may_fail):
        if now.listening is Listening.YES or around.by_pulsar_client:
            yield from _arrived(replace(now, listening=Listening.YES), entry, answer, around)
        elif isinstance(answer, Unknown) or _is_about_failing(answer):
            yield now


def _arrived(state: State, entry: Entry, answer: Answer, around: Circumstances) -> Iterator[State]:
    """The entry reached the broker, or, without an answer, perhaps did not."""
    connected = replace(state.topic, sessions=((SESSION, PRODUCER),))
    topic, told = reference.send(connected, SESSION, entry)
    after = replace(state, topic=topic)
    match answer:
        case Unknown():
            yield replace(state, listening=Listening.CUT)
            yield after if told else _due(replace(after, may_fail=state.may_fail or around.may_fail), None)
        case Stored(position) if not told:
            yield _due(after, str(position))
        case Refused() if around.may_fail and _is_about_failing(answer):
            yield after if told else _due(after, WILL_FAIL)
        case Duplicate() if told and isinstance(told[0].answer, Duplicate):
            yield after
        case Refused(code) if told and isinstance(told[0].answer, Refused) and code == told[0].answer.code:
            yield after
        case _:
            pass


def _is_about_failing(answer: Answer) -> bool:
    return isinstance(answer, Refused) and answer.code != UNKNOWN_STATUS


def _due(state: State, session: str | None) -> State:
    """The newest write in flight has this answer."""
    *before, newest = state.topic.in_flight
    return replace(state, topic=replace(state.topic, in_flight=(*before, replace(newest, session=session))))


def settled(states: States, *, may_fail: bool) -> States:
    """All entries of a send were handled: the writes that were answered are complete."""
    return _simplest(
        replace(now, listening=Listening.YES, topic=replace(now.topic, sessions=()))
        for state in states
        for now in progress(state, may_fail=may_fail)
        if all(write.session is None for write in now.topic.in_flight)
    )


def _observed(states: States) -> Iterator[State]:
    """The states that are possible by the time of an observation."""
    for state in states:
        for now in progress(state, may_fail=False):
            yield replace(now, listening=Listening.YES)


def opened(states: States, last_sequence_id: int) -> States:
    """A reopened producer learned this id."""
    return _simplest(now for now in _observed(states) if now.topic.persisted_of(PRODUCER) == last_sequence_id)


def loaded(states: States, *, may_be_unknown: bool) -> States:
    """The topic was unloaded and loaded, with any number of the writes in flight in the log."""
    after = [_loaded(state, reached) for state in states for reached in range(len(state.topic.in_flight) + 1)]
    return _simplest(after + [_forgotten(state) for state in after if may_be_unknown])


def _loaded(state: State, reached: int) -> State:
    topic = reference.recover(reference.crash(state.topic, reached=reached))
    return State(topic, state.positions + (None,) * reached)


def _forgotten(state: State) -> State:
    """The snapshot had no room for the producer."""
    topic = replace(state.topic, snapshot=reference.Snapshot(state.topic.last_position))
    return replace(state, topic=replace(topic, pushed=reference.NOTHING, persisted=reference.NOTHING))


def purged(states: States) -> States:
    """The producer may have been forgotten. The snapshot that a later load finds may be one without it, or not."""
    return _simplest([*states, *(after for state in states for after in _purged(state))])


def _purged(state: State) -> Iterator[State]:
    snapshot = state.topic.snapshot
    assert snapshot is not None, "deduplication is enabled"
    topic = replace(state.topic, pushed=reference.NOTHING, persisted=reference.NOTHING)
    since = snapshot.position
    places = [entry.position for entry in topic.log if since is None or entry.position > since]
    by_id = {}  # of several positions after which a load finds the same id, the last one
    for position in (since, *places):
        found = replace(topic, snapshot=reference.Snapshot(position))
        by_id[reference.recovered_ids(found)] = found
    yield from (replace(state, topic=found) for found in by_id.values())


def switched(states: States, *, on: bool) -> States:
    """Deduplication was switched."""
    return _simplest(replace(s, topic=reference.switch_deduplication(s.topic, on=on)) for s in states)


def exposed(states: States) -> States:
    """Writes may fail from now on, including those in flight."""
    return _simplest(replace(state, may_fail=True) for state in states)


def read_back(states: States, found: Sequence[LoggedEntry]) -> States:
    """The producer's entries in the log were read while nothing was in flight."""
    return _simplest(
        replace(now, positions=tuple(logged.position for logged in found))
        for now in _observed(states)
        if not now.topic.in_flight and _is_log(now, found)
    )


def _is_log(state: State, found: Sequence[LoggedEntry]) -> bool:
    return len(state.topic.log) == len(found) and all(
        mine.entry == its.entry and position in (None, its.position)
        for mine, position, its in zip(state.topic.log, state.positions, found, strict=True)
    )


def in_snapshot(states: States, highest: int, position: Position) -> States:
    """A snapshot at this position has this id; NONE: the producer is not in it."""
    return _simplest(now for now in _observed(states) if _could_be_in_snapshot(now, highest, position))


def _could_be_in_snapshot(state: State, highest: int, position: Position) -> bool:
    if state.topic.snapshot is None:
        return True
    since = state.topic.snapshot.position
    entries = zip(state.topic.log, state.positions, strict=True)
    counted = [(one.entry.highest, at) for one, at in entries if since is None or one.position > since]
    before = (end for end, at in counted if at is not None and at <= position)
    return max(before, default=NONE) <= highest <= max((end for end, _ in counted), default=NONE)


def without_switch(around: Circumstances, *, enabled: bool) -> Circumstances:
    """The circumstances of a send, with deduplication as it is."""
    return with_changes(around, enabled=enabled, switched_on=False)
