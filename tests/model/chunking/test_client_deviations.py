"""The deviations of pulsar-client excuse only what their cause affects: other messages and commands are judged."""

from __future__ import annotations

import pytest

from model.events import Acknowledged, RedeliveryRequested
from model.explain import judge
from model.subscription_operations import Acknowledge, Nack
from model.traffic import CommandAck, CommandRedeliver, ConsumerCommand, Traffic
from tests.model.chunking.histories import allowed, at, broken, dispatched, given, longer, received, subscribed

EVERYTHING = CommandRedeliver(())


@pytest.mark.parametrize(
    ("log", "before", "got", "unordered", "deviation"),
    [
        ("a0/2 a0/2 a1/2 x y", 5, "x@3 y@4", "y@4 x@3 y@4", "chunk-repeated-discards-buffer"),
        (
            "a0/2 x y a1/2",
            3,
            "x@1 y@2",
            "y@2 x@1 y@2",
            "chunk-buffers-survive-resubscribe",
        ),
    ],
    ids=["a repeated chunk", "a buffer that survived"],
)
def test_a_client_that_discarded_a_buffer_delivers_all_other_messages_in_order(
    log: str, before: int, got: str, unordered: str, deviation: str
) -> None:
    commands: tuple[ConsumerCommand, ...] = (*dispatched(log)[:before], EVERYTHING, *dispatched(log))
    assert allowed(received(subscribed(log), commands, got)).deviations == (deviation,)
    assert broken(received(subscribed(log), commands, unordered)) == ("CHUNK-05", None, "client")
    last = unordered.split()[-1]
    assert broken(received(subscribed(log), commands, last))[1] is None, "the other message is not lost"


def test_a_message_whose_buffer_was_discarded_may_be_delivered_late_once_it_is_sent_again() -> None:
    log, again = "a0/2 a0/2 a1/2 x y", "a0/2 a0/2 a1/2 x y a0/2 a1/2"
    discarded = allowed(received(subscribed(log), dispatched(log), "x@3 y@4")).state
    late = allowed(received(longer(discarded, again), dispatched(again)[5:], "a@6"))
    assert late.deviations == ("chunk-repeated-discards-buffer",)


@pytest.mark.parametrize(
    ("requested", "deviations"),
    [((), ("chunk-discarded-not-redelivered",)), ((0, 1), ()), ((1,), None), ((0,), None)],
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
        assert tuple(dict.fromkeys(allowed(judged).deviations)) == deviations


@pytest.mark.parametrize(
    ("requested", "deviations"),
    [
        ((1, 3), ("chunk-nack-returns-last-only",)),
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
    judged = judge(before, Nack("c"), RedeliveryRequested(given("a@1 b@3"), traffic=traffic))
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert tuple(dict.fromkeys(allowed(judged).deviations)) == deviations


@pytest.mark.parametrize(
    ("acknowledged", "deviations"),
    [
        ((2, 3), ("chunk-duplicates-not-acked",)),
        ((0, 1, 2, 3), ()),
        ((1, 2, 3), None),
        ((0, 2, 3), None),
        ((3,), ("chunk-acks-last-only",)),
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
    judged = judge(before, Acknowledge("c", (0,)), Acknowledged(given("a@3"), traffic=traffic))
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert tuple(dict.fromkeys(allowed(judged).deviations)) == deviations


@pytest.mark.parametrize(
    ("log", "acknowledged", "deviations"),
    [
        ("a1/2 a0/2", (0,), ("chunk-from-before-not-acked",)),
        ("a1/2 a0/2", (0, 1), ()),
        ("a1/2 a0/2", (1,), None),
        ("a0/2 a1/2", (1,), ("chunk-acks-last-only",)),
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
    judged = judge(before, Acknowledge("c", (0,)), Acknowledged(given(got), traffic=traffic))
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert tuple(dict.fromkeys(allowed(judged).deviations)) == deviations


@pytest.mark.parametrize(
    ("up_to", "is_cumulative", "deviations"),
    [(1, True, ("chunk-from-before-not-acked",)), (2, True, ()), (0, True, None), (0, False, None)],
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
    judged = judge(before, operation, Acknowledged(given("a@1"), traffic=traffic))
    if deviations is None:
        assert broken(judged) == ("CHUNK-07", None, "client")
    else:
        assert tuple(dict.fromkeys(allowed(judged).deviations)) == deviations


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
    judged = judge(before, Acknowledge("c", (0,)), Acknowledged(given("a@1"), traffic=traffic))
    assert broken(judged) == ("CHUNK-07", None, "client")


@pytest.mark.parametrize(
    ("log", "acknowledged", "is_allowed"),
    [
        ("a0/3 a0/3", (0,), True),
        ("a0/3 a1/3 a0/3", (0, 1), True),
        ("a0/3 a1/3 a1/3", (2,), True),
        ("a0/3 a0/3", (1,), False),
        ("a0/3 a1/3 a1/3", (1,), False),
        ("a0/3 b0/3", (0,), False),
    ],
)
def test_a_client_may_acknowledge_a_chunk_at_once_that_it_has_from_another_entry(
    log: str, acknowledged: tuple[int, ...], is_allowed: bool
) -> None:
    """Seen with the Java client: it does so when the first chunk comes again."""
    commands: tuple[ConsumerCommand, ...] = (*dispatched(log), CommandAck(tuple(map(at, acknowledged))))
    judged = received(subscribed(log), commands, "")
    if is_allowed:
        allowed(judged)
    else:
        assert broken(judged) == ("CHUNK-08", None, "client")
