"""The deduplication rules as statements about every state and every step of the exploration.

Promises are what users rely on: stored once, in order, and confirmed only if stored. The others say what the
broker's maps and its snapshot must be for that. A statement about stored messages reads the log, not the
maps that it judges.
"""

from __future__ import annotations

from itertools import pairwise

from model.deduplication import reference as broker
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS
from model.deduplication.reference import Judgement, SessionAnswer, Topic
from model.events import Duplicate, Refused, Stored
from model.explorations.deduplication.world import Setup, Step, World
from model.explore import Always, EveryStep
from model.vocabulary import Entry

StateStatement = Always[World]
StepStatement = EveryStep[World, Step]


def stored_ids(topic: Topic, producer: str) -> tuple[int, ...]:
    """The sequence ids of this producer in the log, message by message, in the log's order."""
    return tuple(
        message.sequence_id for logged in topic.log if logged.producer == producer for message in logged.entry.messages
    )


def highest_stored(topic: Topic, producer: str) -> int:
    """The highest of them; -1 for none."""
    return max(stored_ids(topic, producer), default=NONE)


def highest_written(topic: Topic, producer: str) -> int:
    """The highest sequence id of this producer in the log or in flight; -1 for none."""
    on_the_way = (write.entry.highest for write in topic.in_flight if write.producer == producer)
    return max([highest_stored(topic, producer), *on_the_way])


def statements(setup: Setup) -> tuple[tuple[StateStatement, ...], tuple[StepStatement, ...]]:
    """The statements for every state and every step of this configuration, without those that it cannot exercise."""
    judged = (NEW_IS_TAKEN, DUPLICATE_IS_CONFIRMED, UNKNOWN_IS_REFUSED)
    if not setup.deduplication:
        return (PUSHED_IS_NOT_BEHIND,), (UNJUDGED_WHEN_OFF, *(judged if setup.switches else ()))
    in_order = RISING if setup.restart == "with its next message" else in_order_of_the_source(setup)
    states = [STORED_ONCE, in_order, PUSHED_IS_NOT_BEHIND, PERSISTED_IS_STORED, PUSHED_IS_WRITTEN]
    steps = [CONFIRMED_IS_STORED, *judged, HIGHEST_IS_LEARNED]
    if len(setup.sources) > 1:
        steps += [OTHERS_ARE_UNTOUCHED]
    if setup.failures:
        steps += [FAILED_IS_NEW_AGAIN]
    if setup.snapshots:
        states += [SNAPSHOT_HAS_ROOM, SNAPSHOT_IS_NOT_BEHIND, SNAPSHOT_IS_STORED]
        steps += [FAILED_SNAPSHOT_CHANGES_NOTHING]
    if setup.crashes:
        states += [RECOVERABLE]
        steps += [RECOVERED]
    return tuple(states), tuple(steps)


def _stored_once(world: World) -> bool:
    ids = [stored_ids(world.topic, producer.name) for producer in world.producers]
    return all(len(set(own)) == len(own) for own in ids)


def _rising(world: World) -> bool:
    return all(a < b for producer in world.producers for a, b in pairwise(stored_ids(world.topic, producer.name)))


def in_order_of_the_source(setup: Setup) -> StateStatement:
    """The stored messages of a producer are the first ones of its source, in order and without gaps."""
    sources = {name: tuple(message.sequence_id for message in source) for name, source in setup.sources}

    def holds(world: World) -> bool:
        for producer in world.producers:
            stored = tuple(dict.fromkeys(stored_ids(world.topic, producer.name)))
            if stored != sources[producer.name][: len(stored)]:
                return False
        return True

    return Always(("DEDUP-13",), "messages are stored in the order of their source, without gaps", holds, True)


def _pushed_is_not_behind(world: World) -> bool:
    topic = world.topic
    return all(topic.pushed_of(p.name) >= topic.persisted_of(p.name) for p in world.producers)


def _persisted_is_stored(world: World) -> bool:
    return all(world.topic.persisted_of(p.name) == highest_stored(world.topic, p.name) for p in world.producers)


def _pushed_is_written(world: World) -> bool:
    topic = world.topic
    return topic.failing or all(topic.pushed_of(p.name) == highest_written(topic, p.name) for p in world.producers)


def _snapshot_has_room(world: World) -> bool:
    snapshot = world.topic.snapshot
    return snapshot is None or len(snapshot.highest.ids) <= world.topic.max_producers


def _snapshot_is_not_behind(world: World) -> bool:
    snapshot = world.topic.snapshot
    if snapshot is None or snapshot.position is None:
        return True
    full = len(snapshot.highest.ids) >= world.topic.max_producers
    for logged in world.topic.log:
        known = snapshot.highest.of(world.topic.key(logged.producer))
        was_cut = full and known == NONE
        if logged.position <= snapshot.position and logged.entry.highest > known and not was_cut:
            return False
    return True


def _snapshot_is_stored(world: World) -> bool:
    snapshot = world.topic.snapshot
    return snapshot is None or all(
        snapshot.highest.of(world.topic.key(p.name)) <= highest_stored(world.topic, p.name) for p in world.producers
    )


def _recoverable(world: World) -> bool:
    if not world.crashes:
        return True
    topic = world.topic
    found = broker.recovered_ids(topic)
    return all(found.of(topic.key(p.name)) == highest_stored(topic, p.name) for p in world.producers)


def _confirmed_is_stored(before: World, step: Step, after: World) -> bool:
    return all(_is_stored(after.topic, _producer_of(before.topic, one), one) for one in step.answers)


def _is_stored(topic: Topic, producer: str, one: SessionAnswer) -> bool:
    if not isinstance(one.answer, Stored | Duplicate):
        return True
    stored = stored_ids(topic, producer)
    return all(message.sequence_id in stored for message in one.entry.messages)


def _producer_of(topic: Topic, one: SessionAnswer) -> str:
    return topic.producer_of(one.session)


def _new_is_taken(before: World, step: Step, after: World) -> bool:
    if before.topic.snapshot is None:
        return True
    entry = _sent(step)
    if entry.lowest <= before.topic.pushed_of(step.producer):
        return len(after.topic.in_flight) == len(before.topic.in_flight)
    return not step.answers and after.topic.in_flight[-1].entry == entry


def _duplicate_is_confirmed(before: World, step: Step, after: World) -> bool:
    if before.topic.snapshot is None:
        return True
    if _sent(step).highest > before.topic.persisted_of(step.producer):
        return not any(isinstance(one.answer, Duplicate) for one in step.answers)
    return [one.answer for one in step.answers] == [Duplicate()] and after.topic == before.topic


def _unknown_is_refused(before: World, step: Step, after: World) -> bool:
    topic, entry = before.topic, _sent(step)
    if topic.snapshot is None:
        return True
    between = entry.lowest <= topic.pushed_of(step.producer) and entry.highest > topic.persisted_of(step.producer)
    refused = any(isinstance(t.answer, Refused) and t.answer.code == UNKNOWN_STATUS for t in step.answers)
    return refused == between and (not between or after.topic == topic)


def _failed_is_new_again(_: World, step: Step, after: World) -> bool:
    return after.topic.failing or broker.judge(after.topic, step.producer, _sent(step)) is Judgement.NEW


def _others_are_untouched(before: World, step: Step, after: World) -> bool:
    others = [p.name for p in before.producers if p.name != step.producer]
    return all(
        before.topic.pushed_of(name) == after.topic.pushed_of(name)
        and before.topic.persisted_of(name) == after.topic.persisted_of(name)
        for name in others
    )


def _highest_is_learned(before: World, step: Step, _: World) -> bool:
    return step.learned == highest_stored(before.topic, step.producer)


def _failed_snapshot_changes_nothing(before: World, _: Step, after: World) -> bool:
    return after.topic == before.topic


def _recovered(_before: World, _: Step, after: World) -> bool:
    return _persisted_is_stored(after) and after.topic.pushed == after.topic.persisted


def _unjudged_when_off(before: World, _: Step, after: World) -> bool:
    is_on = before.topic.snapshot is not None
    return is_on or len(after.topic.in_flight) == len(before.topic.in_flight) + 1


def _sent(step: Step) -> Entry:
    """The entry of the step."""
    assert step.entry is not None
    return step.entry


SENT = frozenset({"new", "duplicate", "unknown", "refused", "unjudged"})
"""The kinds of steps in which an entry is judged, or should be."""
WRITTEN = frozenset({"stored", "stored unheard"})
CONNECTED = frozenset({"connect", "restart"})

STORED_ONCE = Always(("DEDUP-02", "DEDUP-03", "DEDUP-13"), "no message is stored twice", _stored_once, promise=True)
RISING = Always(("DEDUP-13", "DEDUP-15"), "a producer's messages are stored in its order", _rising, promise=True)
CONFIRMED_IS_STORED = EveryStep(
    ("DEDUP-13", "DEDUP-15"), "a confirmed message is stored", SENT | WRITTEN, _confirmed_is_stored, promise=True
)
PUSHED_IS_NOT_BEHIND = Always(("DEDUP-05",), "pushed is never below persisted", _pushed_is_not_behind)
PERSISTED_IS_STORED = Always(
    ("DEDUP-05", "DEDUP-12"), "persisted is the highest id stored of each producer", _persisted_is_stored
)
PUSHED_IS_WRITTEN = Always(
    ("DEDUP-05", "DEDUP-06"), "pushed exceeds persisted only by messages in flight", _pushed_is_written
)
SNAPSHOT_HAS_ROOM = Always(
    ("DEDUP-10",), "a snapshot holds at most the configured number of producers", _snapshot_has_room
)
SNAPSHOT_IS_NOT_BEHIND = Always(
    ("DEDUP-10",),
    "a snapshot has the ids of all entries up to its position, for the producers that it holds",
    _snapshot_is_not_behind,
)
SNAPSHOT_IS_STORED = Always(("DEDUP-10",), "every id in a snapshot is stored", _snapshot_is_stored)
RECOVERABLE = Always(
    ("DEDUP-11", "DEDUP-12"),
    "the broker that loads the topic next recovers each producer's highest id stored",
    _recoverable,
)
NEW_IS_TAKEN = EveryStep(
    ("DEDUP-02", "DEDUP-08", "DEDUP-14"),
    "exactly the ids above pushed are written to the log",
    SENT,
    _new_is_taken,
)
DUPLICATE_IS_CONFIRMED = EveryStep(
    ("DEDUP-03",),
    "exactly the ids at or below persisted are confirmed without being stored",
    SENT,
    _duplicate_is_confirmed,
)
UNKNOWN_IS_REFUSED = EveryStep(
    ("DEDUP-04",),
    "exactly the ids above persisted and at or below pushed get a retriable error",
    SENT,
    _unknown_is_refused,
)
FAILED_IS_NEW_AGAIN = EveryStep(
    ("DEDUP-06",), "after a failed write its id is new again", frozenset({"write fails"}), _failed_is_new_again
)
OTHERS_ARE_UNTOUCHED = EveryStep(
    ("DEDUP-07",), "a send does not change the ids of other producers", SENT | WRITTEN, _others_are_untouched
)
HIGHEST_IS_LEARNED = EveryStep(
    ("DEDUP-09",), "a producer that connects learns its highest stored id", CONNECTED, _highest_is_learned
)
FAILED_SNAPSHOT_CHANGES_NOTHING = EveryStep(
    ("DEDUP-11",),
    "a snapshot that fails changes nothing",
    frozenset({"snapshot fails"}),
    _failed_snapshot_changes_nothing,
)
RECOVERED = EveryStep(
    ("DEDUP-12",), "after a recovery, both ids are the highest stored id", frozenset({"crash"}), _recovered
)
UNJUDGED_WHEN_OFF = EveryStep(
    ("DEDUP-01",), "with deduplication off, everything that is sent is stored", SENT, _unjudged_when_off
)
