"""Delays between broker and application are no violation: only what is certain is judged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from conformance.history.recorded import CallOutcome, Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import random_histories
from tests.pipeline.histories.simulated_clients import Simulated, choices, recorded

ON_ITS_WAY_NS = 10_000
"""Longer than anything takes in these histories."""

BY_TYPE = {"Key_Shared": "one consumer at a time", "Shared": "shared one at a time"}


def is_broken(history: Sequence[Recorded], name: str) -> bool:
    return name in random_histories.broken_in(random_histories.judged(history, setting=VerificationSetting()))


@pytest.mark.parametrize("subscription_type", BY_TYPE)
@pytest.mark.parametrize("is_proxied", [False, True])
@given(drawn=choices)
@settings(max_examples=400)
def test_a_correct_broker_with_delayed_clients_is_never_blamed(
    subscription_type: str, is_proxied: bool, drawn: list[tuple[int, int]]
) -> None:
    history = recorded(drawn, subscription_type, is_proxied=is_proxied)
    results = random_histories.judged(history, setting=VerificationSetting(on_its_way_ns=ON_ITS_WAY_NS))
    assert random_histories.broken_in(results) == set()


def to_two(*given: Recorded) -> bool:
    return is_broken(given, "one consumer at a time")


def test_a_key_pending_at_two_consumers_is_found_without_recorded_dispatches() -> None:
    simulated = Simulated("Key_Shared", is_proxied=False)
    for number in range(2):
        simulated.send(0)
        simulated.dispatch(number, simulated.client(number))
    for number in range(2):
        simulated.take(simulated.client(number))
    history = simulated.recorded
    assert to_two(*history)
    _, *_, last = history
    assert not to_two(*history, replace(last, consumer="somebody", completed_ns=last.completed_ns + 1))
    assert to_two(*(replace(one, invoked_ns=one.completed_ns) for one in (*history, last)))


@pytest.mark.parametrize("is_proxied", [False, True])
def test_an_earlier_redelivery_request_may_be_handled_after_a_dispatch(is_proxied: bool) -> None:
    simulated = Simulated("Key_Shared", is_proxied=is_proxied)
    one, other = simulated.client(0), simulated.client(1)
    simulated.send(0)
    simulated.redeliver(one)
    simulated.dispatch(0, one)
    simulated.read(one)
    simulated.dispatch(0, other)
    simulated.take(one)
    simulated.take(other)
    assert not to_two(*simulated.recorded)


@pytest.mark.parametrize("is_proxied", [False, True])
def test_an_ack_may_be_handled_after_a_dispatch_to_another_consumer(is_proxied: bool) -> None:
    simulated = Simulated("Key_Shared", is_proxied=is_proxied)
    one, other = simulated.client(0), simulated.client(1)
    simulated.send(0)
    simulated.send(0)
    simulated.dispatch(0, one)
    simulated.take(one)
    simulated.settle(Kind.ACK, one, 0, CallOutcome.UNKNOWN)
    simulated.lose(one, 1)
    simulated.dispatch(0, other)
    simulated.take(other)
    simulated.read(one)
    simulated.dispatch(1, one)
    simulated.take(one)
    assert not to_two(*simulated.recorded)
