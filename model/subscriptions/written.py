"""What is known of the log of a topic with subscriptions: confirmed entries, and reads of the log.

Subscriptions are judged by their topic's log. While a write with an unknown outcome may be in flight, the log is
*unsure*. After an operation on subscriptions of an unsure log, they are no longer tracked or judged. If the log is read
back first, it is known again, provided that no such write can be in flight. If it is read back later, only
subscriptions that are created after that are tracked. A producer that reconnected shows that the broker has closed its
former connection. An entry that is confirmed after the reconnect shows that the former writes have ended, because the
log has one order.

A delayed message is stored like any other, and consumers that share their subscription receive it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from model.cursors.log import TopicLog, appended, key_of
from model.deduplication.producer_state import UNKNOWN_STATUS
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored
from model.immutable.map import Map
from model.judgement import Allowed, Broken
from model.log import Position
from model.sessions import Session
from model.subscriptions import starts
from model.subscriptions.state import Consumption, TrackedTopic
from model.vocabulary import Entry

Judged = Allowed[Consumption] | Broken

DELAY_TICKS: Final = 2
"""How many ticks a delayed message may be late."""


def sent(state: Consumption, topic: str, entries: Sequence[Entry]) -> Consumption:
    """Entries were sent, and may have been stored."""
    tracked = state.topics.get(topic)
    if tracked is None or tracked.has_chunks or not any(entry.chunk for entry in entries):
        return state
    return state.with_topic(topic, replace(tracked, has_chunks=True))


def stored(state: Consumption, topic: str, producer: str, entry: Entry, position: Position) -> Judged:
    """An entry was confirmed."""
    tracked = state.topics.get(topic)
    if tracked is None or not tracked.is_sure:
        return Allowed(state)
    log = _appended(tracked.log, producer, entry, position)
    if isinstance(log, Broken):
        return log
    rolled_over = len(log.ledgers) > max(1, len(tracked.log.ledgers))
    return Allowed(state.with_topic(topic, replace(tracked, log=log)), ("ACK-06",) if rolled_over else ())


def delayed(state: Consumption, topic: str, entries: Sequence[Entry], sent_ms: float) -> Consumption:
    """Entries were sent until then. Each delayed message is due when its delay and two ticks have passed since.

    A broker looks for due messages at most once a tick, and its timer is exact to a tick.
    """
    tracked = state.topics.get(topic)
    delays = {message.business_id: message.delay_ms for entry in entries for message in entry.messages}
    if tracked is None or tracked.delay_tick_ms is None or not any(delays.values()):
        return state
    due_ms = {name: sent_ms + ms + DELAY_TICKS * tracked.delay_tick_ms for name, ms in delays.items() if ms}
    not_due = tracked.not_due.updated(due_ms)
    return state.with_topic(topic, replace(tracked, delayed=tracked.delayed.union(due_ms), not_due=not_due))


def time_passed(state: Consumption, now_ms: float) -> Consumption:
    """The delayed messages whose time has come by now are due."""
    for topic, tracked in state.topics.items():
        if tracked.not_due and any(due_ms <= now_ms for due_ms in tracked.not_due.values()):
            not_due = Map({name: due_ms for name, due_ms in tracked.not_due.items() if due_ms > now_ms})
            state = state.with_topic(topic, replace(tracked, not_due=not_due))
    return state


def _appended(log: TopicLog, producer: str, entry: Entry, position: Position) -> TopicLog | Broken:
    ids = tuple(message.business_id for message in entry.messages)
    return appended(log, position, ids, key_of(entry, producer), entry.chunk)


def unsure(state: Consumption, topic: str, producer: str | None = None) -> Consumption:
    """The fate of an entry is unknown, and with it the log. A write of the ``producer`` may be in flight."""
    tracked = state.topics.get(topic)
    if tracked is None:
        return state
    in_doubt = tracked.in_doubt if producer is None else tracked.in_doubt | {producer}
    return state.with_topic(topic, replace(tracked, is_sure=False, in_doubt=in_doubt))


def lost(state: Consumption, topic: str) -> Consumption:
    """An operation on subscriptions happened while the log was unsure. They are no longer tracked."""
    parts = next((parts for parts in state.partitions.values() if topic in parts), (topic,))
    for part in parts:
        if (tracked := state.topics.get(part)) is not None:
            state = state.with_topic(part, replace(tracked, is_sure=False, is_lost=True, has_untracked=True))
    for name, consumer in list(state.consumers.items()):
        if not set(consumer.topics).isdisjoint(parts):
            state = state.without_tracking(name)
    for subscription in [subscription for subscription in state.cursors if subscription.topic in parts]:
        state = state.without_keyed(subscription).without_cursor(subscription)
    return starts.without_deleted(state, [one for one in state.deleted if one.topic in parts])


def answered(
    state: Consumption,
    session: Session,
    entries: tuple[Entry, ...],
    answers: tuple[Answer, ...],
    *,
    is_disturbed: bool,
    is_awaited: bool,
) -> Judged:
    """A producer received answers to entries that it sent.

    A duplicate is not stored, nor is an entry of unknown status (DEDUP-04). An entry that is refused for another reason
    is not stored either, except under a fault (``is_disturbed``). Under a fault, pulsar-client may also resend an entry
    that was stored. Answers contain sequence ids, so entries in flight with one id must be equal, unless all of them
    are stored chunks of one message. ``is_awaited``: it waited for the answers, so all this was written after the
    operations before.
    """
    topic, exercised = session.topic, tuple[str, ...]()
    if topic not in state.topics:
        return Allowed(state)
    pairs = zip(entries, answers, strict=False)
    answered = [(entry, one) for entry, one in pairs if not _is_not_stored(one, is_disturbed=is_disturbed)]
    by_id = {one: entry for entry in entries for one in (entry.lowest, entry.highest)}
    resends = is_disturbed and session.client == "official"
    if resends or not all(isinstance(answer, Stored) for _, answer in answered):
        state = unsure(state, topic, session.producer)
    elif answered and not is_awaited:
        state = _no_longer_in_doubt(state, topic, session.producer)
    are_mixed_up = any(by_id[one] != entry for entry in entries for one in (entry.lowest, entry.highest))
    if are_mixed_up and not _are_chunks_alike(entries, answers):
        state = unsure(state, topic)
    placed = sorted(
        (answer.position, number) for number, (_, answer) in enumerate(answered) if isinstance(answer, Stored)
    )
    for position, number in placed:
        judged = stored(state, topic, session.producer, answered[number][0], position)
        if isinstance(judged, Broken):
            return judged
        state, exercised = judged.state, exercised + judged.exercised
    if placed and is_awaited:
        state = state.with_topic(topic, replace(state.topics[topic], reopened=frozenset()))
    return Allowed(state, exercised)


def _are_chunks_alike(entries: tuple[Entry, ...], answers: tuple[Answer, ...]) -> bool:
    """Whether these are the chunks of one message, which its producer sent in order, and all are stored or none is."""
    uuids = {entry.chunk.uuid if entry.chunk else None for entry in entries}
    are_alike = any(all(isinstance(answer, kind) for answer in answers) for kind in (Stored, Duplicate))
    return len(uuids) == 1 and None not in uuids and are_alike


def _is_not_stored(answer: Answer, *, is_disturbed: bool) -> bool:
    """Whether an answer shows that its entry was not stored, and never will be."""
    match answer:
        case Duplicate():
            return True
        case Refused(code):
            return not is_disturbed or code == UNKNOWN_STATUS
        case _:
            return False


def _no_longer_in_doubt(state: Consumption, topic: str, producer: str) -> Consumption:
    tracked = state.topics[topic]
    return state.with_topic(topic, replace(tracked, in_doubt=tracked.in_doubt - {producer}))


def reopened(state: Consumption, topic: str, producer: str) -> Consumption:
    """A producer reconnected, so the broker has closed its former connection."""
    tracked = state.topics.get(topic)
    if tracked is None or producer not in tracked.in_doubt:
        return state
    in_doubt, reopened = tracked.in_doubt - {producer}, tracked.reopened | {producer}
    return state.with_topic(topic, replace(tracked, in_doubt=in_doubt, reopened=reopened))


def with_store(state: Consumption, *, is_away: bool) -> Consumption:
    """The metadata store is away, or back: until then, no ledger is replaced for sure."""
    for topic, tracked in state.topics.items():
        log = tracked.log.without_rollover() if is_away else tracked.log.with_rollover()
        state = state.with_topic(topic, replace(tracked, log=log))
    return state


def may_be_in_flight(tracked: TrackedTopic) -> bool:
    """Whether an unanswered write of a producer may be in flight."""
    return bool(tracked.in_doubt or tracked.reopened)


def read_back(state: Consumption, topic: str, entries: Sequence[LoggedEntry]) -> Judged:
    """The log was read back while nothing was in flight, so it is known.

    :mod:`model.deduplication` judges for each producer that confirmed entries are at their positions.
    """
    tracked = state.topics[topic]
    before = tracked.log
    log = TopicLog(before.room, before.has_markers, is_kept_open=before.is_kept_open, kept_open=before.kept_open)
    for one in entries:
        longer = _appended(log, one.producer, one.entry, one.position)
        if isinstance(longer, Broken):
            return longer
        log = longer
    return Allowed(state.with_topic(topic, replace(tracked, log=log, is_sure=True, is_lost=False)))
