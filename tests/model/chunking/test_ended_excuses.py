"""An excuse of a chunked topic ends with its cause: acks that an unload may lose, and messages that may come late."""

from __future__ import annotations

from model.chunking import acks, consumers, deliveries
from model.chunking.state import Chunking, ChunkingProducer, ChunkSubscription, ChunkTopic, SentMessage, TrackedConsumer
from model.events import UnacknowledgedRead
from model.judgement import Allowed, Broken
from model.log import Position
from model.traffic import Traffic
from model.vocabulary import SubscriptionId
from tests.model.chunking.histories import PRODUCER, at, digest, dispatched, given, logged

SUBSCRIPTION_ID = SubscriptionId("t", "s")
X, Y = ord("x"), ord("y")


def topic() -> ChunkTopic:
    """A topic whose producer sent x and y, in this order."""
    asked = tuple(
        SentMessage(sequence_id=one, digest=digest(chr(one)), size_bytes=1, is_confirmed=True) for one in (X, Y)
    )
    return ChunkTopic(100, False, {PRODUCER: ChunkingProducer(asked)}, logged("x y"))


def unacknowledged_read(subscription: ChunkSubscription, *positions: Position) -> Allowed[Chunking] | Broken:
    """The verdict on a cursor that is read with these entries unacknowledged."""
    state = Chunking({"t": topic()}, subscriptions={SUBSCRIPTION_ID: subscription})
    return acks.backlog_read(state, SUBSCRIPTION_ID, UnacknowledgedRead(positions))


ACKNOWLEDGED = ChunkSubscription(acknowledged=frozenset({at(0), at(1)}), settled=frozenset({at(0)}))
"""Both messages are acknowledged, and the broker was seen to have the first ack."""


def test_an_unload_may_lose_only_acks_that_the_broker_was_not_seen_to_have() -> None:
    unloaded = ACKNOWLEDGED.unloaded(is_graceful=True)
    allowed = unacknowledged_read(unloaded, at(1))
    assert isinstance(allowed, Allowed)
    assert allowed.excused == ("CHUNK-07",)
    for lost in ((at(0),), (at(0), at(1))):
        broken = unacknowledged_read(unloaded, *lost)
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.side) == ("CHUNK-07", "broker")


def test_a_kill_may_lose_any_ack_once() -> None:
    killed = ACKNOWLEDGED.unloaded(is_graceful=False)
    allowed = unacknowledged_read(killed, at(0), at(1))
    assert isinstance(allowed, Allowed)
    after = allowed.state.subscriptions[SUBSCRIPTION_ID]
    assert after.maybe_lost == frozenset()
    acked_again = ChunkSubscription(acknowledged=frozenset({at(0)}), settled=after.settled)
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
