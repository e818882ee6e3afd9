"""The deviations of pulsar-client excuse only what their cause affects: other messages and commands are judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from model.chunking import acks, consumers, deliveries
from model.chunking.state import Chunking, ChunkingProducer, ChunkSubscription, ChunkTopic, SentMessage, TrackedConsumer
from model.deviations import DEVIATIONS
from model.events import Acknowledged, RedeliveryRequested
from model.excuses.chunking import (
    CHUNK_ACKS_LAST_ONLY,
    CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE,
    CHUNK_DISCARDED_NOT_REDELIVERED,
    CHUNK_DUPLICATES_NOT_ACKED,
    CHUNK_FROM_BEFORE_NOT_ACKED,
    CHUNK_NACK_RETURNS_LAST_ONLY,
    CHUNK_REPEATED_DISCARDS_BUFFER,
)
from model.judgement import Allowed, Broken
from model.subscription_operations import Acknowledge, Nack
from model.traffic import CommandAck, CommandRedeliver, ConsumerCommand, Traffic
from model.vocabulary import SubscriptionId, SubscriptionType
from tests.model.chunking.histories import PRODUCER, at, digest, dispatched, given, logged

KNOWN = frozenset(DEVIATIONS)
SUBSCRIPTION_ID = SubscriptionId("t", "s")
EVERYTHING = CommandRedeliver(())


def subscribed(log: str, *, kind: SubscriptionType = "Exclusive", pending: int = 0) -> Chunking:
    """A topic with this log, and its consumer c, which was sent nothing yet."""
    asked = tuple(SentMessage(sequence_id=ord(name), digest=digest(name), size_bytes=1) for name in "abxy")
    hypotheses = deliveries.fresh_hypotheses(pending=pending, acks_discarded=False)
    return Chunking(
        {"t": ChunkTopic(100, deduplication=False, producers={PRODUCER: ChunkingProducer(asked)}, log=logged(log))},
        {"c": TrackedConsumer(topic="t", subscription="s", kind=kind, hypotheses=hypotheses)},
        {SUBSCRIPTION_ID: ChunkSubscription()},
    )


def received(state: Chunking, commands: Iterable[ConsumerCommand], got: str) -> Allowed[Chunking] | Broken:
    """The verdict if c was sent everything that is due by these commands, and delivered these messages."""
    traffic = Traffic("c", tuple(commands), given(got))
    return consumers.gathered(state, SUBSCRIPTION_ID, (traffic,), KNOWN)


def allowed(judged: Allowed[Chunking] | Broken) -> Allowed[Chunking]:
    assert isinstance(judged, Allowed), judged
    return judged


def broken(judged: Allowed[Chunking] | Broken) -> tuple[str, str | None, str | None]:
    assert isinstance(judged, Broken), judged
    return judged.rule, judged.deviation, judged.side


@pytest.mark.parametrize(
    ("log", "before", "got", "unordered", "deviations"),
    [
        ("a0/2 a0/2 a1/2 x y", 5, "x@3 y@4", "y@4 x@3 y@4", {CHUNK_REPEATED_DISCARDS_BUFFER}),
        (
            "a0/2 x y a1/2",
            3,
            "x@1 y@2",
            "y@2 x@1 y@2",
            {CHUNK_REPEATED_DISCARDS_BUFFER, CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE},
        ),
    ],
    ids=["a repeated chunk", "a buffer that survived"],
)
def test_a_client_that_discarded_a_buffer_delivers_all_other_messages_in_order(
    log: str, before: int, got: str, unordered: str, deviations: set[str]
) -> None:
    commands: tuple[ConsumerCommand, ...] = (*dispatched(log)[:before], EVERYTHING, *dispatched(log))
    assert set(allowed(received(subscribed(log), commands, got)).deviations) == deviations
    assert broken(received(subscribed(log), commands, unordered)) == ("CHUNK-05", None, "client")
    last = unordered.split()[-1]
    assert broken(received(subscribed(log), commands, last))[1] is None, "the other message is not lost"


def test_a_message_whose_buffer_was_discarded_may_be_delivered_late_once_it_is_sent_again() -> None:
    log, again = "a0/2 a0/2 a1/2 x y", "a0/2 a0/2 a1/2 x y a0/2 a1/2"
    discarded = allowed(received(subscribed(log), dispatched(log), "x@3 y@4")).state
    topic = replace(discarded.topics["t"], log=logged(again))
    late = allowed(received(discarded.with_topic("t", topic), dispatched(again)[5:], "a@6"))
    assert late.excused == ("CHUNK-05",)


@pytest.mark.parametrize(
    ("requested", "deviations"),
    [((), (CHUNK_DISCARDED_NOT_REDELIVERED,)), ((0, 1), ()), ((1,), None), ((0,), None)],
    ids=["none", "all", "the last one", "the first one"],
)
def test_a_client_that_requests_redelivery_of_some_discarded_chunks_requests_all_of_them(
    requested: tuple[int, ...], deviations: tuple[str, ...] | None
) -> None:
    log = "a0/3 a1/3 b0/2 b1/2"
    requests = (CommandRedeliver((at(number),)) for number in requested)
    commands: tuple[ConsumerCommand, ...] = (*dispatched(log), *requests)
    judged = received(subscribed(log, kind="Shared", pending=1), commands, "b@3")
    if deviations is None:
        assert broken(judged) == ("CHUNK-08", None, "client")
    else:
        assert allowed(judged).deviations == deviations


@pytest.mark.parametrize(
    ("requested", "deviations"),
    [
        ((1, 3), (CHUNK_NACK_RETURNS_LAST_ONLY,)),
        ((0, 1, 2, 3), ()),
        ((1,), None),
        ((3,), None),
        ((0, 1, 2), None),
        ((0, 2), None),
    ],
)
def test_a_client_requests_redelivery_of_at_least_the_last_chunk_of_each_nacked_message(
    requested: tuple[int, ...], deviations: tuple[str, ...] | None
) -> None:
    log = "a0/2 a1/2 b0/2 b1/2"
    before = allowed(received(subscribed(log, kind="Shared"), dispatched(log), "a@1 b@3")).state
    traffic = (Traffic("c", (CommandRedeliver(tuple(map(at, requested))),)),)
    judged = acks.requested(before, Nack("c"), RedeliveryRequested(given("a@1 b@3"), traffic=traffic), KNOWN)
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert allowed(judged).deviations == deviations


@pytest.mark.parametrize(
    ("acknowledged", "deviations"),
    [
        ((2, 3), (CHUNK_DUPLICATES_NOT_ACKED,)),
        ((0, 1, 2, 3), ()),
        ((1, 2, 3), None),
        ((0, 2, 3), None),
        ((3,), (CHUNK_ACKS_LAST_ONLY,)),
        ((2,), None),
        ((0, 1, 3), None),
    ],
)
def test_a_client_that_acknowledges_one_repeated_chunk_acknowledges_all_of_them(
    acknowledged: tuple[int, ...], deviations: tuple[str, ...] | None
) -> None:
    log = "a0/2 a0/2 a0/2 a1/2"
    before = allowed(received(subscribed(log), dispatched(log), "a@3")).state
    traffic = (Traffic("c", (CommandAck(tuple(map(at, acknowledged))),)),)
    judged = acks.requested(before, Acknowledge("c", (0,)), Acknowledged(given("a@3"), traffic=traffic), KNOWN)
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert allowed(judged).deviations == deviations


@pytest.mark.parametrize(
    ("log", "acknowledged", "deviations"),
    [
        ("a1/2 a0/2", (0,), (CHUNK_FROM_BEFORE_NOT_ACKED,)),
        ("a1/2 a0/2", (0, 1), ()),
        ("a1/2 a0/2", (1,), None),
        ("a0/2 a1/2", (1,), (CHUNK_ACKS_LAST_ONLY,)),
        ("a0/2 a1/2", (0,), None),
    ],
)
def test_a_client_leaves_out_only_first_chunks_that_it_had_before_it_resubscribed(
    log: str, acknowledged: tuple[int, ...], deviations: tuple[str, ...] | None
) -> None:
    got = "a@0" if log.startswith("a1") else "a@1"
    again: tuple[ConsumerCommand, ...] = (EVERYTHING, *dispatched(log)) if log.startswith("a1") else ()
    before = allowed(received(subscribed(log), (*dispatched(log), *again), got)).state
    traffic = (Traffic("c", (CommandAck(tuple(map(at, acknowledged))),)),)
    judged = acks.requested(before, Acknowledge("c", (0,)), Acknowledged(given(got), traffic=traffic), KNOWN)
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert allowed(judged).deviations == deviations


@pytest.mark.parametrize(
    ("up_to", "is_cumulative", "deviations"),
    [(1, True, (CHUNK_FROM_BEFORE_NOT_ACKED,)), (2, True, ()), (0, True, None), (0, False, None)],
)
def test_a_cumulative_ack_leaves_out_only_chunks_above_the_last_one(
    up_to: int, is_cumulative: bool, deviations: tuple[str, ...] | None
) -> None:
    """Seen on 4.0.8: the consumer requested the redelivery of everything after the first chunk had come."""
    log = "a1/3 a2/3 a0/3"
    again: tuple[ConsumerCommand, ...] = (EVERYTHING, *dispatched(log))
    before = allowed(received(subscribed(log), (*dispatched(log), *again), "a@1")).state
    traffic = (Traffic("c", (CommandAck((at(up_to),), is_cumulative),)),)
    operation = Acknowledge("c", (0,), cumulative=is_cumulative)
    judged = acks.requested(before, operation, Acknowledged(given("a@1"), traffic=traffic), KNOWN)
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert allowed(judged).deviations == deviations


def test_only_a_message_that_was_sent_before_a_request_and_after_it_may_come_late() -> None:
    """Seen in an upgrade: a nack's timer requested everything a second time, while the client had the message."""
    log = "a0/2 a1/2"
    sent = dispatched(log)
    once: tuple[ConsumerCommand, ...] = (EVERYTHING, *sent)
    begin = allowed(received(subscribed(log), sent, "a@1")).state
    one_is_left = allowed(received(begin, (*once, *once), "a@1")).state
    for got in ("a@1", "a@1 a@1"):
        allowed(received(one_is_left, once, got))
    more_than_once = ("CHUNK-04", None, "client")
    assert broken(received(one_is_left, once, "a@1 a@1 a@1")) == more_than_once
    none_is_left = allowed(received(begin, (*once, *once), "a@1 a@1")).state
    assert broken(received(none_is_left, once, "a@1 a@1")) == more_than_once
    requested_once = allowed(received(begin, once, "a@1")).state
    assert broken(received(requested_once, once, "a@1 a@1")) == more_than_once


@pytest.mark.parametrize("positions", [(0, 1, 3), (1, 3)])
def test_acks_that_leave_out_chunks_include_no_other_message(positions: tuple[int, ...]) -> None:
    log = "a0/2 a1/2 b0/2 b1/2"
    before = allowed(received(subscribed(log), dispatched(log), "a@1 b@3")).state
    traffic = (Traffic("c", (CommandAck(tuple(map(at, positions))),)),)
    judged = acks.requested(before, Acknowledge("c", (0,)), Acknowledged(given("a@1"), traffic=traffic), KNOWN)
    assert broken(judged) == ("CHUNK-07", None, "client")
