"""An excuse of a chunked topic ends with its cause: acks that an unload may lose, and messages that may come late."""

from __future__ import annotations

from dataclasses import replace

from model.chunking import consumers, deliveries
from model.chunking.state import Chunking, ChunkingProducer, ChunkSubscription, ChunkTopic, SentMessage, TrackedConsumer
from model.events import Acknowledged, Done, UnacknowledgedRead
from model.example import Example
from model.example.judge import NO_TIME, judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import Kill, Unload
from model.subscription_operations import Acknowledge, ReadCursor
from model.subscriptions import watched
from model.traffic import CommandAck, Traffic
from tests.model.chunking.histories import (
    PRODUCER,
    SUBSCRIPTION_ID,
    allowed,
    at,
    digest,
    dispatched,
    given,
    logged,
    looked,
    passed,
    subscribed,
)

X, Y = ord("x"), ord("y")


def topic() -> ChunkTopic:
    """A topic whose producer sent x and y, in this order."""
    asked = tuple(
        SentMessage(sequence_id=one, digest=digest(chr(one)), size_bytes=1, is_confirmed=True) for one in (X, Y)
    )
    return ChunkTopic(100, False, {PRODUCER: ChunkingProducer(asked)}, logged("x y"))


def acknowledged() -> Example:
    """Both messages are acknowledged, and the broker was seen to have the first ack."""
    received = allowed(looked(subscribed("x y"), c=dispatched("x y"))).state
    seen = allowed(passed(received, "c", CommandAck((at(0),)))).state
    ack = Acknowledged((), traffic=(Traffic("c", (CommandAck((at(1),)),)),))
    judged = watched.judge(seen.consumption, Acknowledge("c", ()), ack, NO_TIME)
    assert isinstance(judged, Allowed)
    return replace(seen, consumption=judged.state)


def unacknowledged_read(state: Example, *positions: Position) -> Allowed[Example] | Broken:
    """The verdict on a cursor that is read with these entries unacknowledged."""
    return judge(state, ReadCursor(*SUBSCRIPTION_ID), UnacknowledgedRead(positions))


def test_an_unload_may_lose_only_acks_that_the_broker_was_not_seen_to_have() -> None:
    unloaded = allowed(judge(acknowledged(), Unload("t"), Done())).state
    assert allowed(unacknowledged_read(unloaded, at(1))).excused == ("CHUNK-07",)
    for lost in ((at(0),), (at(0), at(1))):
        broken = unacknowledged_read(unloaded, *lost)
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.side) == ("CHUNK-07", "broker")


def test_a_kill_may_lose_acks_that_are_not_persisted_once() -> None:
    killed = allowed(judge(acknowledged(), Kill(), Done())).state
    read = allowed(unacknowledged_read(killed, at(0), at(1))).state
    acked_again = allowed(passed(read, "c", CommandAck((at(0),)))).state
    assert isinstance(unacknowledged_read(acked_again, at(0), at(1)), Broken)


def late(subscription: ChunkSubscription) -> Allowed[Chunking] | Broken:
    """The verdict if x is delivered for the first time when y was delivered already, to a client with a limit."""
    client = deliveries.fresh(pending=5, acks_discarded=False)
    consumer = TrackedConsumer(subscription=SUBSCRIPTION_ID, kind="Exclusive", client=client)
    state = Chunking({"t": topic()}, {"c": consumer}, {SUBSCRIPTION_ID: subscription})
    traffic = Traffic("c", dispatched("x"), given("x@0"))
    return consumers.gathered(state, SUBSCRIPTION_ID, (traffic,))


DELIVERED = ChunkSubscription(
    acknowledged=frozenset({at(1)}), delivered={PRODUCER: Y}, seen=frozenset({(PRODUCER, Y)}), delayed=frozenset()
)


def test_a_limit_on_pending_messages_is_no_excuse_as_long_as_nothing_was_put_off() -> None:
    broken = late(DELIVERED)
    assert isinstance(broken, Broken)
    assert broken.rule == "CHUNK-05"


def test_a_message_that_was_put_off_may_come_late() -> None:
    delayed = ChunkSubscription(DELIVERED.acknowledged, delayed=frozenset({at(0)}), delivered=DELIVERED.delivered)
    allowed = late(delayed)
    assert isinstance(allowed, Allowed)
    assert allowed.excused == ("CHUNK-05",)
