"""Which starvation of a Shared subscription a forgotten assignment of chunks explains, and which it does not."""

from __future__ import annotations

import pytest

from model.chunking.assignment import NOTHING_SENT
from model.example import Example
from model.traffic import CommandAck, CommandMessage, CommandRedeliver, CommandSubscribe, ConsumerCommand
from model.vocabulary import ChunkNumber, SubscriptionType
from tests.model.chunking.histories import (
    allowed,
    at,
    broken,
    dispatched,
    example,
    joined,
    left,
    looked,
    passed,
    written,
)

OUTLIVES = "chunk-assignment-outlives-consumer"


def shared(log: str, *names: str, kind: SubscriptionType = "Shared") -> Example:
    """Consumers of a topic with this log; pulsar-client's."""
    state = example(written(log))
    for name in names:
        state = joined(state, name, kind)
    return state


def passes(state: Example, name: str, *commands: ConsumerCommand) -> Example:
    return allowed(passed(state, name, *commands)).state


def test_a_consumer_that_left_with_the_first_chunk_explains_it() -> None:
    state = left(passes(shared("a0/2 a1/2 x", "c1", "c2"), "c1", *dispatched("a0/2")), "c1")
    answer = allowed(looked(state))
    assert answer.deviations == (OUTLIVES,)
    assert allowed(looked(answer.state)).deviations == (OUTLIVES,), "nothing ended it"


def test_a_last_chunk_that_is_redelivered_alone_explains_it() -> None:
    log = "a0/2 a1/2 x y0/2 y1/2"
    state = passes(shared(log, "c1"), "c1", *dispatched("a0/2 a1/2"), CommandRedeliver((at(1),)))
    assert allowed(looked(state)).deviations == (OUTLIVES,)


WHOLE: tuple[CommandMessage, ...] = dispatched("a0/2 a1/2")
BOTH_AGAIN = CommandRedeliver((at(0), at(1)))


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(left(passes(shared("a0/2 a1/2 x", "c1", "c2"), "c1", *WHOLE), "c1"), id="it had all chunks"),
        pytest.param(passes(shared("a0/2 a1/2 x", "c1"), "c1", *WHOLE, BOTH_AGAIN), id="nack"),
        pytest.param(passes(shared("a0/2 a1/2 x", "c1"), "c1", *dispatched("a0/2")), id="its consumer is there"),
        pytest.param(
            left(passes(shared("a0/2 a1/2 x", "c1", "c2", kind="Failover"), "c1", *dispatched("a0/2")), "c1"),
            id="Failover",
        ),
        pytest.param(
            passes(
                left(passes(shared("a0/2 a1/2 x", "c1", "c2"), "c1", *dispatched("a0/2")), "c1"),
                "c2",
                CommandAck((at(0), at(1)), is_cumulative=False),
            ),
            id="nothing is left of the message",
        ),
    ],
)
def test_anything_else_starves_a_subscription_for_no_known_reason(state: Example) -> None:
    rule, deviation, _ = broken(looked(state))
    assert rule in ("CHUNK-03", "CHUNK-09", "CHUNK-15")
    assert deviation is None


def test_a_consumer_that_subscribed_anew_is_another_one_to_the_broker() -> None:
    state = passes(shared("a0/2 a1/2 x", "c1"), "c1", *dispatched("a0/2"), CommandSubscribe())
    assert allowed(looked(state)).deviations == (OUTLIVES,)


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
