"""Which starvation of a Shared subscription a forgotten assignment of chunks explains, and which it does not."""

from __future__ import annotations

import pytest

from model.chunking import consumers
from model.chunking.assignment import NOTHING_SENT
from model.chunking.deliveries import fresh
from model.chunking.state import Chunking, ChunkSubscription, ChunkTopic, TrackedConsumer
from model.deviations import DEVIATIONS
from model.excuses.chunking import CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER
from model.judgement import Allowed, Broken
from model.traffic import CommandAck, CommandMessage, CommandRedeliver, CommandSubscribe, ConsumerCommand, Traffic
from model.vocabulary import ChunkNumber, SubscriptionId, SubscriptionType
from tests.model.chunking.histories import at, dispatched, logged

SUBSCRIPTION_ID = SubscriptionId("t", "s")
KNOWN = frozenset(DEVIATIONS)


def subscribed(log: str, *names: str, kind: SubscriptionType = "Shared") -> Chunking:
    """Consumers of a topic with this log; pulsar-client's."""
    state = Chunking(
        topics={"t": ChunkTopic(100, deduplication=False, log=logged(log))},
        subscriptions={SUBSCRIPTION_ID: ChunkSubscription()},
    )
    for name in names:
        client = fresh(pending=0, acks_discarded=False)
        consumer = TrackedConsumer(topic="t", subscription="s", kind=kind, client=client)
        state = state.with_consumer(name, consumer)
    return state


def passes(state: Chunking, name: str, *commands: ConsumerCommand) -> Chunking:
    judged = consumers.passed(state, Traffic(name, commands, ()), KNOWN)
    assert isinstance(judged, Allowed), judged
    return judged.state


def leaves(state: Chunking, name: str) -> Chunking:
    judged = consumers.left(state, name, (), KNOWN)
    assert isinstance(judged, Allowed), judged
    return judged.state


def starved(state: Chunking) -> Allowed[Chunking] | Broken:
    """Nothing more is sent to anybody."""
    return consumers.gathered(state, SUBSCRIPTION_ID, (), KNOWN)


def test_a_consumer_that_left_with_the_first_chunk_explains_it() -> None:
    state = leaves(passes(subscribed("a0/2 a1/2 x", "c1", "c2"), "c1", *dispatched("a0/2")), "c1")
    answer = starved(state)
    assert isinstance(answer, Allowed)
    assert answer.deviations == (CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,)
    assert isinstance(starved(answer.state), Allowed), "nothing ended it"


def test_a_last_chunk_that_is_redelivered_alone_explains_it() -> None:
    state = passes(
        subscribed("a0/2 a1/2 x y0/2 y1/2", "c1"), "c1", *dispatched("a0/2 a1/2"), CommandRedeliver((at(1),))
    )
    answer = starved(state)
    assert isinstance(answer, Allowed)
    assert answer.deviations == (CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,)


WHOLE: tuple[CommandMessage, ...] = dispatched("a0/2 a1/2")
BOTH_AGAIN = CommandRedeliver((at(0), at(1)))


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(leaves(passes(subscribed("a0/2 a1/2 x", "c1", "c2"), "c1", *WHOLE), "c1"), id="it had all chunks"),
        pytest.param(
            passes(subscribed("a0/2 a1/2 x", "c1"), "c1", *WHOLE, CommandRedeliver((at(0), at(1)))), id="nack"
        ),
        pytest.param(passes(subscribed("a0/2 a1/2 x", "c1"), "c1", *dispatched("a0/2")), id="its consumer is there"),
        pytest.param(
            leaves(passes(subscribed("a0/2 a1/2 x", "c1", "c2", kind="Failover"), "c1", *dispatched("a0/2")), "c1"),
            id="Failover",
        ),
        pytest.param(
            passes(
                leaves(passes(subscribed("a0/2 a1/2 x", "c1", "c2"), "c1", *dispatched("a0/2")), "c1"),
                "c2",
                CommandAck((at(0), at(1)), is_cumulative=False),
            ),
            id="nothing is left of the message",
        ),
    ],
)
def test_anything_else_starves_a_subscription_for_no_known_reason(state: Chunking) -> None:
    answer = starved(state)
    assert isinstance(answer, Broken)
    assert answer.rule in ("CHUNK-03", "CHUNK-09")
    assert answer.deviation is None


def test_a_consumer_that_subscribed_anew_is_another_one_to_the_broker() -> None:
    state = passes(subscribed("a0/2 a1/2 x", "c1"), "c1", *dispatched("a0/2"), CommandSubscribe())
    answer = starved(state)
    assert isinstance(answer, Allowed)
    assert answer.deviations == (CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,)


def test_a_message_whose_uuid_came_again_may_have_been_sent_to_the_consumer_that_left_with_its_first_chunk() -> None:
    """Seen on 4.0.8: the producer sent w-2 again, and only its first chunk was stored. The consumer that had all three
    left, and another one received the last of them only."""
    first, last = (ChunkNumber(chunk_id=number, chunks=2, uuid="w-2") for number in range(2))
    left = NOTHING_SENT.sent("c1", first).sent("c1", last).sent("c1", first).without("c1", free=(first, last, first))
    again = left.sent("c2", first)
    assert again.is_stuck([first, last])
    assert not again.is_stuck([last]), "it has the rest of what it was sent"
    other = ChunkNumber(chunk_id=0, chunks=2, uuid="w-3")
    assert not again.is_stuck([other])
    whole = NOTHING_SENT.sent("c1", first).sent("c1", last).without("c1", free=(first, last))
    assert not whole.sent("c2", first).is_stuck([first, last])
