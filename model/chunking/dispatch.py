"""Judges the dispatch of a chunked topic by its log and acks: the broker's side of the wire.

The broker sends unacknowledged entries to an ordered consumer (Exclusive, Failover) in the order of the log. After the
consumer subscribed or requested redelivery, it begins with the first. Of shared subscriptions the document describes
little that releases implement. The rules here are that the broker sends only stored entries, and sends each complete
message to a consumer (CHUNK-09).

The performer waits for :func:`due` too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from model.chunking.state import ChunkSubscription, ChunkTopic, TrackedConsumer
from model.chunking.stored_chunks import wholes
from model.excuses import DEVIATIONS
from model.excuses.chunking import (
    CHUNK_ASSIGNED_BEYOND_PERMITS,
    CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,
    CHUNKS_DISPATCHED_ONE_BY_ONE,
    DRAINING_HASH_BLOCKS_CHUNKS,
    HASH_REASSIGNED_BETWEEN_CHUNKS,
    RECENTLY_JOINED_WAITS_FOR_CHUNKS,
    REDELIVERY_READS_IN_PARALLEL,
)
from model.excuses.ways import explained
from model.judgement import Allowed, Broken, all_of, judges_waits
from model.log import EARLIEST, Position
from model.rules.catalogue import carries
from model.traffic import (
    CommandAck,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    LoggedPart,
)
from model.vocabulary import IN_ORDER, SubscriptionId, SubscriptionType

CREATED_CURSOR_PERSISTED_AT_LATEST: Final = "created-cursor-persisted-at-latest"


def met(
    topic: ChunkTopic,
    subscription: ChunkSubscription,
    name: str,
    consumer: TrackedConsumer,
    passed: Iterable[ConsumerCommand],
    known: Collection[str],
    *,
    is_read: bool,
) -> tuple[ChunkSubscription, TrackedConsumer, tuple[str, ...]] | Broken:
    """A subscription and one of its consumers after these commands, and the known deviations that they require.

    ``is_read``: the topic's log was read after them.
    """
    deviations: list[str] = []
    stored = {entry.position: entry for entry in topic.log}
    for one in passed:
        match one:
            case CommandMessage():
                broken = _is_of_the_log(name, one, stored) if is_read else None
                judged = broken or _sent(topic, subscription, name, consumer, one)
                if isinstance(judged, Broken) and judged.deviation in known and judged.deviation is not None:
                    deviations.append(judged.deviation)
                    between = _between(topic, subscription, consumer.last, one.position)
                    if judged.deviation == CREATED_CURSOR_PERSISTED_AT_LATEST:
                        subscription = replace(subscription, acknowledged=subscription.acknowledged.union(between))
                        judged = _sent(topic, subscription, name, consumer, one)
                    else:
                        skipped = consumer.skipped.union(between) - consumer.holds
                        judged = replace(consumer, holds=consumer.holds | {one.position}, skipped=skipped)
                if isinstance(judged, Broken):
                    return judged
                consumer = judged
                if consumer.kind == "Shared" and (chunk := one.part.chunk) is not None:
                    subscription = replace(subscription, assignment=subscription.assignment.sent(name, chunk))
            case CommandAck(positions, is_cumulative):
                acknowledged = _acknowledged(topic, positions, is_cumulative=is_cumulative)
                subscription = replace(subscription, acknowledged=subscription.acknowledged | acknowledged)
                consumer = replace(consumer, holds=consumer.holds - acknowledged)
            case CommandRedeliver(positions):
                consumer = _asked(topic, consumer, positions)
            case CommandSubscribe():
                subscription = replace(subscription, assignment=subscription.assignment.without(name))
                consumer = replace(
                    consumer,
                    is_rewound=True,
                    requests=0,
                    asked_after=None,
                    last=None,
                    holds=frozenset(),
                    skipped=frozenset(),
                    unsure=frozenset(),
                    is_returning=False,
                )
    return subscription, consumer, tuple(deviations)


def _acknowledged(topic: ChunkTopic, positions: tuple[Position, ...], *, is_cumulative: bool) -> frozenset[Position]:
    if not is_cumulative:
        return frozenset(positions)
    last = max(positions)
    return frozenset(entry.position for entry in topic.log if entry.position <= last)


def _asked(topic: ChunkTopic, consumer: TrackedConsumer, positions: tuple[Position, ...]) -> TrackedConsumer:
    if consumer.kind in IN_ORDER:
        last = consumer.last or EARLIEST
        # A read that waits for new entries is cancelled, unlike one in progress.
        asked_after = last if topic.end > last or topic.has_unanswered else None
        asking = replace(consumer, is_rewound=True, requests=consumer.requests + 1, asked_after=asked_after)
        return replace(asking, holds=frozenset(), skipped=frozenset())
    if not positions:
        return replace(consumer, is_rewound=True, is_returning=True, holds=frozenset())
    return replace(consumer, holds=consumer.holds - frozenset(positions))


@carries("CHUNK-03")
def _is_of_the_log(name: str, came: CommandMessage, stored: Mapping[Position, LoggedPart]) -> Broken | None:
    entry = stored.get(came.position)
    if entry is None:
        return _by_broker(
            "CHUNK-03", f"the broker dispatched {came.part} at {came.position} to {name}, but the log has no such entry"
        )
    if (entry.producer, entry.part) != (came.producer, came.part):
        what = f"the broker dispatched {came.part} of {came.producer} at {came.position} to {name}"
        return _by_broker("CHUNK-03", f"{what}, but the log has {entry.part} of {entry.producer} there, or other bytes")
    return None


@carries("CHUNK-05", "CHUNK-07")
def _sent(
    topic: ChunkTopic, subscription: ChunkSubscription, name: str, consumer: TrackedConsumer, came: CommandMessage
) -> TrackedConsumer | Broken:
    """An ordered consumer is sent the next unacknowledged entry, or the first one once for each redelivery request."""
    sent = replace(consumer, holds=consumer.holds | {came.position})
    if consumer.is_returning:
        sent = replace(sent, unsure=sent.unsure | {came.position})
    if consumer.kind not in IN_ORDER:
        return sent
    at, last = came.position, consumer.last
    if (consumer.is_rewound or consumer.requests) and not _between(topic, subscription, None, at):
        left = max(0, consumer.requests - 1)
        return replace(consumer, last=at, is_rewound=False, requests=left, holds=frozenset({at}))
    if last is not None and at > last and not _between(topic, subscription, last, at):
        return replace(consumer, last=at) if consumer.is_rewound else replace(sent, last=at)
    if consumer.asked_after is not None and topic.end > consumer.asked_after:
        # A read may have been in progress when the request arrived.
        what = f"after a redelivery request of {name} the broker dispatched {came.part} of {came.producer} at {at}"
        if at in consumer.holds:
            return DEVIATIONS[REDELIVERY_READS_IN_PARALLEL].broken(f"{what} twice")
        if last is not None and at > max(last, consumer.asked_after):
            return DEVIATIONS[REDELIVERY_READS_IN_PARALLEL].broken(f"{what} right after {last}, skipping entries")
    rule = "CHUNK-07" if consumer.is_rewound else "CHUNK-05"
    after = f"after {last}" if last is not None else "first"
    left_out = ", ".join(map(str, _between(topic, subscription, last if last and at > last else None, at)))
    why = f"although {left_out} is not acknowledged" if left_out else "although no redelivery was requested"
    because = f"the broker dispatched {came.part} of {came.producer} at {at} to {name} {after}, {why}"
    if last is None and left_out and subscription.is_as_created and not subscription.acknowledged:
        return Broken(rule, because, CREATED_CURSOR_PERSISTED_AT_LATEST, "broker")
    return _by_broker(rule, because)


def _between(
    topic: ChunkTopic, subscription: ChunkSubscription, after: Position | None, before: Position
) -> list[Position]:
    """The unacknowledged entries between two positions, or before one."""
    return [
        entry.position
        for entry in topic.log
        if entry.position < before
        and (after is None or entry.position > after)
        and entry.position not in subscription.acknowledged
    ]


def due(kind: SubscriptionType, left: Sequence[LoggedPart], holds: Sequence[Collection[Position]]) -> list[Position]:
    """The unacknowledged entries that are due and were not sent. ``holds``: the entries sent to each consumer.

    All entries are due to an ordered consumer. On shared subscriptions complete messages are due. With several
    consumers of a Key_Shared subscription, a message may wait until others of its hash are acknowledged. It is due only
    while no application has a message to acknowledge, because it would then wait forever.
    """
    if not holds:
        return []
    sent = frozenset().union(*holds)
    if kind in IN_ORDER:
        return [entry.position for entry in left if entry.position not in sent]
    there = [{entry.position for entry in whole} for whole in wholes(left)]
    if kind == "Key_Shared" and len(holds) > 1 and any(whole <= set(one) for whole in there for one in holds):
        return []
    return sorted(position for whole in there for position in whole if position not in sent)


@carries("CHUNK-14")
def together(
    left: Sequence[LoggedPart], consumers: Mapping[str, TrackedConsumer], known: frozenset[str]
) -> Allowed[None] | Broken:
    """All entries of a complete message are pending at one consumer of a shared subscription.

    A message that may have been sent twice, because of a redelivery request for everything, is not judged.
    """
    return all_of(_scattered(left, consumers, known))


def _scattered(
    left: Sequence[LoggedPart], consumers: Mapping[str, TrackedConsumer], known: frozenset[str]
) -> Iterator[Allowed[None] | Broken]:
    unsure = frozenset().union(*(consumer.unsure for consumer in consumers.values()))
    for whole in wholes(left):
        positions = {entry.position for entry in whole}
        having = [name for name, consumer in consumers.items() if consumer.holds & positions]
        if len(having) > 1 and not positions & unsure:
            part = whole[-1].part
            what = f"message {part.sequence_id} of {whole[-1].producer}, whose last entry is at {max(positions)}"
            because = f"the broker dispatched entries of {what}, to {' and to '.join(having)}"
            causes = []
            is_sent_once = sum(len(consumers[name].holds & positions) for name in having) <= len(positions)
            if is_sent_once and all(consumers[name].kind == "Shared" for name in having):
                causes = [CHUNKS_DISPATCHED_ONE_BY_ONE]
            elif _is_reassigned_in_between([consumers[name] for name in having], positions):
                causes = [HASH_REASSIGNED_BETWEEN_CHUNKS]
            yield explained(_by_broker("CHUNK-14", because), causes, None, known)


def _is_reassigned_in_between(having: Sequence[TrackedConsumer], whole: Collection[Position]) -> bool:
    """Whether all consumers but the last one had their chunks of a message when its hash may have been reassigned."""
    *before, _ = sorted(having, key=lambda one: max(one.holds & set(whole)))
    return all(one.kind == "Key_Shared" and one.holds & set(whole) <= one.reassigned for one in before)


@carries("CHUNK-09", "CHUNK-14")
@judges_waits
def starved(
    subscription_id: SubscriptionId,
    topic: ChunkTopic,
    consumers: Sequence[TrackedConsumer],
    owed: Sequence[Position],
    known: frozenset[str] = frozenset(),
    *,
    is_stuck: bool,
) -> Broken:
    """Due entries were not dispatched. ``is_stuck``: there is a chunk that the broker cannot assign.

    If several deviations explain that, it has the name of a known one.
    """
    where = f"subscription {subscription_id.name} of {subscription_id.topic}"
    what = f"the broker does not dispatch {len(owed)} entries from {owed[0]} on to {where}"
    unfinished = _unfinished(topic)
    while_unfinished = f"{what}, while the log has unfinished messages"
    broken = [DEVIATIONS[CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER].broken(what)] if is_stuck else []
    if _are_blocked_by_first_chunks(topic, consumers, owed):
        name = DRAINING_HASH_BLOCKS_CHUNKS if topic.drains else RECENTLY_JOINED_WAITS_FOR_CHUNKS
        broken.append(DEVIATIONS[name].broken(what))
    if _may_be_assigned_beyond_permits(topic, consumers, owed[0]):
        broken.append(DEVIATIONS[CHUNK_ASSIGNED_BEYOND_PERMITS].broken(what))
    if unfinished and _is_recently_joined_waiting_for(unfinished, topic, consumers, owed):
        broken.append(DEVIATIONS[RECENTLY_JOINED_WAITS_FOR_CHUNKS].broken(while_unfinished, "CHUNK-09"))
    if broken:
        return min(broken, key=lambda one: one.deviation not in known)
    if unfinished:
        return _by_broker("CHUNK-09", while_unfinished)
    return _by_broker("CHUNK-03" if len(consumers) < 2 else "CHUNK-14", what)


def holders(topic: ChunkTopic, consumers: Mapping[str, TrackedConsumer], position: Position) -> frozenset[str]:
    """The consumers with chunks of the message that an entry belongs to."""
    messages = ({entry.position for entry in whole} for whole in wholes(topic.log))
    of_message = next((whole for whole in messages if position in whole), set[Position]())
    return frozenset(name for name, consumer in consumers.items() if not consumer.holds.isdisjoint(of_message))


def _may_be_assigned_beyond_permits(topic: ChunkTopic, consumers: Sequence[TrackedConsumer], first: Position) -> bool:
    """Whether one of several Shared consumers has only the first chunks of a message, for lack of permits.

    ``first``: the first due entry, which must be the next chunk. The stall ends when that consumer leaves: its entries
    are then replayed from the first chunk on.
    """
    if len(consumers) < 2 or any(consumer.kind != "Shared" for consumer in consumers):
        return False
    for whole in ([entry.position for entry in whole] for whole in wholes(topic.log)):
        if first in whole[1:]:
            before = set(whole[: whole.index(first)])
            having = [consumer for consumer in consumers if not consumer.holds.isdisjoint(whole)]
            return any(
                consumer.holds & set(whole) == before
                and (consumer.queue < len(whole) or consumer.queue <= len(consumer.holds))
                for consumer in having
            )
    return False


def _are_blocked_by_first_chunks(
    topic: ChunkTopic, consumers: Sequence[TrackedConsumer], owed: Sequence[Position]
) -> bool:
    """Whether a Key_Shared consumer held the first chunks of each message owed when another one joined or left.

    The hash may then drain at that consumer until it acknowledges these chunks, which it does with the whole message.
    Until then, later messages of the same key are not dispatched, either. Entries that are not read because so many
    chunks wait for replay may be owed, too.
    """
    if not _share_keys(consumers):
        return False
    if not topic.drains:
        return _is_recently_joined_waiting(topic, consumers, owed)
    waiting: set[Position] = set()
    blocked: set[str] = set()
    for whole in sorted(wholes(topic.log), key=lambda entries: entries[0].position):
        rest = [entry.position for entry in whole if entry.position in owed]
        first = {entry.position for entry in whole} - set(rest)
        key = topic.sticky_key(whole[0])
        is_held = any(first <= one.holds & one.reassigned for one in consumers)
        if first and rest and max(first) < rest[0] and is_held:
            waiting.update(rest)
            blocked.update(() if key is None else {key})
        elif not first and key in blocked:
            waiting.update(rest)
    if not waiting:
        return False
    limit = topic.look_ahead.limit(len(consumers))
    is_full = limit is not None and len(waiting) >= limit
    return all(position in waiting or (is_full and position > min(waiting)) for position in owed)


def _is_recently_joined_waiting(
    topic: ChunkTopic, consumers: Sequence[TrackedConsumer], owed: Sequence[Position]
) -> bool:
    """Whether a consumer of the classic implementation held only the first chunks of a message when another one joined.

    The one that joined waits for all that was read by then, these chunks among it, and nothing more is read. It may
    have received the other chunks, which waited for replay.
    """
    if not _joined_before(consumers, owed[0]):
        return False
    messages = [[entry.position for entry in whole] for whole in wholes(topic.log)]
    for one in consumers:
        elsewhere = frozenset().union(owed, *(other.holds for other in consumers if other is not one))
        for whole in messages:
            first = [position for position in whole if position not in elsewhere]
            if (
                first == whole[: len(first)]
                and 0 < len(first) < len(whole)
                and (one.holds & one.reassigned).issuperset(first)
            ):
                return True
    return False


def _unfinished(topic: ChunkTopic) -> frozenset[Position]:
    """The chunks of messages that are not complete in the log."""
    complete = {entry.position for whole in wholes(topic.log) for entry in whole}
    return frozenset(entry.position for entry in topic.log if entry.position not in complete)


def _is_recently_joined_waiting_for(
    unfinished: Collection[Position],
    topic: ChunkTopic,
    consumers: Sequence[TrackedConsumer],
    owed: Sequence[Position],
) -> bool:
    """Whether a consumer of the classic implementation held chunks of unfinished messages when another one joined.

    Nobody acknowledges these chunks, and the one that joined waits for all that was read by then.
    """
    if topic.drains or not _share_keys(consumers) or not _joined_before(consumers, owed[0]):
        return False
    return any(not one.holds.isdisjoint(one.reassigned.intersection(unfinished)) for one in consumers)


def _share_keys(consumers: Sequence[TrackedConsumer]) -> bool:
    """Whether these are several consumers of a Key_Shared subscription."""
    return len(consumers) > 1 and all(consumer.kind == "Key_Shared" for consumer in consumers)


def _joined_before(consumers: Sequence[TrackedConsumer], position: Position) -> bool:
    """Whether a consumer joined or left when others had entries, all of which are before this position."""
    read_by_then = max((position for one in consumers for position in one.reassigned), default=None)
    return read_by_then is not None and position > read_by_then


def _by_broker(rule: str, because: str) -> Broken:
    return Broken(rule, because, None, "broker")
