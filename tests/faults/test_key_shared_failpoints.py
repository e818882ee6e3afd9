"""The failpoints of Key_Shared in a real broker, and the race that each of them allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance.clients.wire.client import WireClient
from conformance.faults.failpoints import FailpointOnTopic, armed
from tests.faults.keyed import Keyed, all_received
from tests.faults.topic_fixture import TopicFixture
from tests.waits import TIMEOUT_S, eventually

DELAY_MS = 800


@pytest.fixture
def elsewhere(fixture: TopicFixture) -> Iterator[WireClient]:
    """Another client, which can be cut off."""
    client = connected(fixture)
    try:
        yield client
    finally:
        client.abort()


def connected(fixture: TopicFixture) -> WireClient:
    return WireClient.connect(fixture.broker.addresses.service_url, timeout_s=TIMEOUT_S)


def test_a_consumer_that_joins_during_a_slow_read_receives_its_messages(fixture: TopicFixture) -> None:
    keyed = Keyed(fixture)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    with armed(fixture.agent, FailpointOnTopic("read-slow", topic=keyed.topic, delay_ms=DELAY_MS)) as fault:
        keyed.send(key)
        eventually(lambda: fault.fired() == 1)
        second = keyed.join("b")
        assert all_received(second, at_least=1) == [1]
    assert all_received(first) == []


def test_a_consumer_that_joins_during_a_slow_dispatch_takes_keys_over_after_it(fixture: TopicFixture) -> None:
    keyed = Keyed(fixture)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    with armed(fixture.agent, FailpointOnTopic("dispatch-slow", topic=keyed.topic, delay_ms=DELAY_MS)) as fault:
        keyed.send(key)
        eventually(lambda: fault.fired() == 1)
        keyed.join("b")
        assert all_received(first, at_least=1) == [1]
    assert keyed.draining() == 1


def test_a_message_dispatched_slowly_to_a_crashed_consumer_goes_to_another(
    fixture: TopicFixture, elsewhere: WireClient
) -> None:
    keyed = Keyed(fixture)
    [key] = keyed.keys("a", 1)
    keyed.join("a", client=elsewhere)
    second = keyed.join("b")
    with armed(fixture.agent, FailpointOnTopic("dispatch-slow", topic=keyed.topic, delay_ms=DELAY_MS)) as fault:
        keyed.send(key)
        eventually(lambda: fault.fired() == 1)
        elsewhere.abort()
        assert all_received(second, at_least=1) == [1]


def test_a_message_acknowledged_during_a_slow_join_does_not_drain(fixture: TopicFixture) -> None:
    keyed = Keyed(fixture)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key, key)
    assert all_received(first, at_least=2) == [1, 2]

    def join() -> tuple[WireClient, float]:
        client, began = connected(fixture), time.monotonic()
        keyed.join("b", client=client)
        return client, time.monotonic() - began

    with (
        ThreadPoolExecutor(1) as another,
        armed(fixture.agent, FailpointOnTopic("join-slow", topic=keyed.topic, delay_ms=DELAY_MS)) as fault,
    ):
        joining = another.submit(join)
        eventually(lambda: fault.fired() == 1)
        keyed.ack(first, 1)  # handled at once, or after the join if the broker has one thread for both connections
        client, took_s = joining.result(TIMEOUT_S)
    assert took_s > 0.9 * DELAY_MS / 1000
    assert (keyed.draining(), keyed.stats().draining_hashes_unacked_messages) == (1, 1)
    client.abort()


def test_a_consumer_that_leaves_slowly_keeps_its_keys_and_messages_until_then(
    fixture: TopicFixture, elsewhere: WireClient
) -> None:
    keyed = Keyed(fixture)
    [key] = keyed.keys("a", 1)
    first, second = keyed.join("a", client=elsewhere), keyed.join("b")
    keyed.send(key)
    assert all_received(first, at_least=1) == [1]
    with armed(fixture.agent, FailpointOnTopic("leave-slow", topic=keyed.topic, delay_ms=DELAY_MS)) as fault:
        began = time.monotonic()
        elsewhere.abort()
        eventually(lambda: fault.fired() == 1)
        keyed.send(key)
        assert all_received(second, at_least=2) == [1, 2]
        assert time.monotonic() - began > 0.9 * DELAY_MS / 1000
