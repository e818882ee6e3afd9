"""What is known of the log of a topic that has subscriptions: what was confirmed, and when the log was read back.

Subscriptions are judged by their topic's log. While a write may be in flight whose outcome nobody knows, the log is
*unsure*; whatever is done to subscriptions then could mean several things, so they are not judged any more, and nothing
of them is tracked. Unless the log is read back before: that is conclusive once no such write can be in flight. If it is
read back later, subscriptions that are created from then on are tracked. A producer that was let in again shows that
the broker is through with its connection before, and an entry that is confirmed after it, that the writes before it
have ended, for the log has one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.cursors.log import TopicLog, appended, key_of
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored
from model.judgement import Allowed, Broken
from model.log import Position
from model.sessions import Session
from model.subscriptions.state import Consumption, Followed
from model.vocabulary import Entry

Judged = Allowed[Consumption] | Broken


def stored(state: Consumption, topic: str, producer: str, entry: Entry, position: Position) -> Judged:
    """An entry was confirmed."""
    followed = state.topics.get(topic)
    if followed is None or not followed.is_sure:
        return Allowed(state)
    log = _appended(followed.log, producer, entry, position)
    if isinstance(log, Broken):
        return log
    rolled_over = len(log.ledgers) > max(1, len(followed.log.ledgers))
    return Allowed(state.with_topic(topic, replace(followed, log=log)), ("ACK-06",) if rolled_over else ())


def _appended(log: TopicLog, producer: str, entry: Entry, position: Position) -> TopicLog | Broken:
    ids = tuple(message.business_id for message in entry.messages)
    return appended(log, position, ids, key_of(entry, producer), entry.chunk)


def unsure(state: Consumption, topic: str, producer: str | None = None) -> Consumption:
    """What became of an entry is not known, so the log is not; a write of the ``producer`` may be in flight."""
    followed = state.topics.get(topic)
    if followed is None:
        return state
    in_doubt = followed.in_doubt if producer is None else followed.in_doubt | {producer}
    return state.with_topic(topic, replace(followed, is_sure=False, in_doubt=in_doubt))


def lost(state: Consumption, topic: str) -> Consumption:
    """Something happened to subscriptions while the log was unsure: those of now are not tracked any more."""
    parts = next((parts for parts in state.partitions.values() if topic in parts), (topic,))
    for part in parts:
        if (followed := state.topics.get(part)) is not None:
            state = state.with_topic(part, replace(followed, is_sure=False, is_lost=True, has_strangers=True))
    for subscription in [subscription for subscription in state.cursors if subscription.topic in parts]:
        state = state.without_keyed(subscription).without_cursor(subscription)
    for name, consumer in list(state.consumers.items()):
        if not set(consumer.topics).isdisjoint(parts):
            state = state.without_consumer(name)
    return replace(
        state, deleted=frozenset(subscription for subscription in state.deleted if subscription.topic not in parts)
    )


def answered(
    state: Consumption,
    session: Session,
    entries: tuple[Entry, ...],
    answers: tuple[Answer, ...],
    *,
    is_disturbed: bool,
    is_awaited: bool,
) -> Judged:
    """A producer got answers to entries that it sent.

    A duplicate is not stored, nor is a refused entry unless something fails (``is_disturbed``). Then pulsar-client may
    also send an entry again that was stored. Answers name sequence ids, so entries in flight of one id must be equal.
    ``is_awaited``: it waited for the answers, so that all this was written after what was performed before.
    """
    topic, exercised = session.topic, tuple[str, ...]()
    if topic not in state.topics:
        return Allowed(state)
    not_stored = (Duplicate,) if is_disturbed else (Duplicate, Refused)
    answered = [(entry, one) for entry, one in zip(entries, answers, strict=False) if not isinstance(one, not_stored)]
    by_id = {one: entry for entry in entries for one in (entry.lowest, entry.highest)}
    resends = is_disturbed and session.client == "official"
    if resends or not all(isinstance(answer, Stored) for _, answer in answered):
        state = unsure(state, topic, session.producer)
    elif answered and not is_awaited:
        state = _no_longer_in_doubt(state, topic, session.producer)
    if any(by_id[one] != entry for entry in entries for one in (entry.lowest, entry.highest)):
        state = unsure(state, topic)
    placed = sorted(
        (answer.position, number) for number, (_, answer) in enumerate(answered) if isinstance(answer, Stored)
    )
    for position, number in placed:
        told = stored(state, topic, session.producer, answered[number][0], position)
        if isinstance(told, Broken):
            return told
        state, exercised = told.state, exercised + told.exercised
    if placed and is_awaited:
        state = state.with_topic(topic, replace(state.topics[topic], reopened=frozenset()))
    return Allowed(state, exercised)


def _no_longer_in_doubt(state: Consumption, topic: str, producer: str) -> Consumption:
    followed = state.topics[topic]
    return state.with_topic(topic, replace(followed, in_doubt=followed.in_doubt - {producer}))


def reopened(state: Consumption, topic: str, producer: str) -> Consumption:
    """A producer was let in: the broker is through with its connection before."""
    followed = state.topics.get(topic)
    if followed is None or producer not in followed.in_doubt:
        return state
    in_doubt, reopened = followed.in_doubt - {producer}, followed.reopened | {producer}
    return state.with_topic(topic, replace(followed, in_doubt=in_doubt, reopened=reopened))


def may_be_in_flight(followed: Followed) -> bool:
    """Whether a write that nobody waits for may be in flight, as far as producers show."""
    return bool(followed.in_doubt or followed.reopened)


def read_back(state: Consumption, topic: str, entries: Sequence[LoggedEntry]) -> Judged:
    """The log was read back while nothing was in flight, so it is known.

    That what was confirmed is where it was confirmed is judged for each producer (:mod:`model.deduplication`).
    """
    followed = state.topics[topic]
    log = TopicLog(followed.log.room)
    for one in entries:
        longer = _appended(log, one.producer, one.entry, one.position)
        if isinstance(longer, Broken):
            return longer
        log = longer
    return Allowed(state.with_topic(topic, replace(followed, log=log, is_sure=True, is_lost=False)))
