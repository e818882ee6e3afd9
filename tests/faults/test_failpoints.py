"""Failpoints in a real broker: what each does, on its topic only, and only as often as armed."""

from __future__ import annotations

import itertools
import time

import pytest

from conformance.brokers.interface import AgentAddress, Capability
from conformance.clients.outcomes import Lost, SendError
from conformance.clients.wire.producer import SendTicket
from conformance.faults.byteman import Agent
from conformance.faults.failpoints import FailpointOnTopic, arm, armed
from conformance.harness_error import HarnessError
from tests.faults.topic_fixture import TopicFixture, is_duplicate, is_stored
from tests.waits import becomes, eventually


def is_one_refused(*tickets: SendTicket) -> bool:
    """Whether, of sends with one id, one comes to be refused; nothing in the answer tells which it is for."""
    eventually(lambda: any(ticket.outcome is not None for ticket in tickets))
    return [isinstance(ticket.outcome, SendError) for ticket in tickets].count(True) == 1


def test_a_topic_that_is_not_fully_named_is_refused() -> None:
    with pytest.raises(ValueError, match="not a full topic name"):
        arm(AgentAddress(host="127.0.0.1", port=1), FailpointOnTopic("write-fails", topic="t"))


def test_a_failed_write_is_not_stored_and_the_next_attempt_is(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    assert is_stored(fixture.send(producer, 1))
    with armed(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)) as fault:
        assert isinstance(fixture.send(producer, 2), Lost | SendError)
        assert fault.fired() == 1
        producer = fixture.producer()
        assert producer.last_sequence_id == 1
        assert is_stored(fixture.send(producer, 2)), "a failpoint fires only as often as armed"
        assert fault.fired() == 1
    assert fixture.stored() == [("p", 1), ("p", 2)]


def test_a_failing_write_is_in_flight_for_its_delay_and_later_writes_fail_too(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    fixture.send(producer, 1)
    with armed(fixture.agent, FailpointOnTopic("write-fails-late", topic=fixture.topic, delay_ms=2000)) as fault:
        began = time.monotonic()
        failing = [producer.send(sequence_id, b"%d" % sequence_id) for sequence_id in (2, 3)]
        eventually(lambda: fault.fired() == 1)
        again = producer.send(2, b"2")
        assert is_one_refused(failing[0], again), "whether it is a duplicate is not known yet"
        assert failing[1].outcome is None, "it is in flight"
        assert all(isinstance(fixture.answer(producer, ticket), Lost | SendError) for ticket in (*failing, again))
        assert time.monotonic() - began > 1.9
    producer = fixture.producer()
    assert producer.last_sequence_id == 1
    assert is_stored(fixture.send(producer, 2, 3))
    assert fixture.stored() == [("p", 1), ("p", 2), ("p", 3)]


def test_no_write_sent_together_with_a_failing_one_is_stored_without_it(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)):
        for ticket in [producer.send(sequence_id, b"") for sequence_id in range(1, 100)]:
            assert not is_stored(fixture.answer(producer, ticket))
    assert is_stored(fixture.send(fixture.producer(), 1))
    assert fixture.stored() == [("p", 1)]


def test_spared_writes_are_stored_and_the_following_ones_fail(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(
        fixture.agent, FailpointOnTopic("write-fails-late", topic=fixture.topic, delay_ms=30, spared=2)
    ) as fault:
        tickets = [producer.send(sequence_id, b"") for sequence_id in range(1, 5)]
        assert [is_stored(fixture.answer(producer, ticket)) for ticket in tickets] == [True, True, False, False]
        assert fault.fired() == 1
    assert fixture.stored() == [("p", 1), ("p", 2)]


def test_a_failpoint_affects_no_other_topic_even_with_the_same_prefix(fixture: TopicFixture) -> None:
    longer = fixture.topic + "-2"
    with armed(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)) as fault:
        assert is_stored(fixture.send(fixture.producer(topic=longer), 1))
        assert fault.fired() == 0


def test_a_disarmed_fault_does_not_happen_and_counts_zero(fixture: TopicFixture) -> None:
    fault = arm(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic, count=3))
    assert fault.disarm() == 0
    assert is_stored(fixture.send(fixture.producer(), 1))
    assert fault.fired() == 0


def test_faults_of_several_topics_have_separate_counts(fixture: TopicFixture) -> None:
    other = fixture.topic + "~ü*"
    with (
        armed(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)) as first,
        armed(fixture.agent, FailpointOnTopic("write-fails", topic=other, count=2)) as second,
    ):
        for topic in (fixture.topic, other, other):
            assert not is_stored(fixture.send(fixture.producer(topic=topic), 1))
        assert (first.fired(), second.fired()) == (1, 2)


def test_rules_that_fail_in_the_broker_are_noticed(fixture: TopicFixture) -> None:
    fault = arm(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic))
    Agent(fixture.agent).set_properties({f"conformance.hit:{fault.token}:1": "begun"})
    with pytest.raises(HarnessError, match="the rules of the failpoint write-fails failed"):
        fault.disarm()
    assert fault.fired() == 0, "nothing is left of it"


def test_arming_a_fault_repeatedly_leaves_nothing(fixture: TopicFixture) -> None:
    for _ in range(3):
        arm(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)).disarm()
    assert not any(fixture.namespace in name for name in Agent(fixture.agent).properties()), "nothing is left of them"


@pytest.mark.parametrize("fault", [{"count": 0}, {"count": 1_000_000}, {"delay_ms": -1}, {"delay_ms": 1_000_000}])
def test_a_count_or_delay_out_of_range_is_refused(fixture: TopicFixture, fault: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="count is 1 to"):
        arm(fixture.agent, FailpointOnTopic("write-slow", topic=fixture.topic, **{"delay_ms": 10, **fault}))


def test_a_slow_write_is_in_flight_for_its_delay_and_later_writes_keep_their_order(fixture: TopicFixture) -> None:
    producer, other = fixture.producer(), fixture.producer("q", topic=fixture.topic + "-2")
    with armed(fixture.agent, FailpointOnTopic("write-slow", topic=fixture.topic, delay_ms=2000)) as fault:
        began = time.monotonic()
        slow, behind = producer.send(1, b"1"), producer.send(2, b"2")
        again = producer.send(1, b"1")
        assert is_one_refused(slow, again), "whether it is a duplicate is not known yet"
        assert is_stored(fixture.send(other, 1, 2, 3)), "other topics go on"
        assert behind.outcome is None, "it is in flight"
        assert is_stored(fixture.answer(producer, behind))
        assert time.monotonic() - began > 1.9
        assert sum(is_stored(fixture.answer(producer, ticket)) for ticket in (slow, again)) == 1
        assert fault.fired() == 1
    assert fixture.stored() == [("p", 1), ("p", 2)]
    assert is_duplicate(fixture.send(producer, 1))


def test_a_lost_confirmation_leaves_the_entry_stored_and_known(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("confirmation-lost", topic=fixture.topic)) as fault:
        assert isinstance(fixture.send(producer, 1), Lost)
        assert fault.fired() == 1
    producer = fixture.producer()
    assert producer.last_sequence_id == 1
    assert is_duplicate(fixture.send(producer, 1))
    assert fixture.stored() == [("p", 1)]


def test_a_failed_snapshot_is_written_with_the_next_one(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("snapshot-write-fails", topic=fixture.topic)) as fault:
        fixture.send(producer, *range(1, 6))
        eventually(lambda: fault.fired() == 1)

    # While the failure is still being handled, no snapshot is taken: then it is the next one but one.
    firsts = itertools.count(6, 5)

    def is_written_with_the_next() -> bool:
        first = next(firsts)
        fixture.send(producer, *range(first, first + 5))
        return becomes(lambda: fixture.snapshot() == {"p": first + 4})

    eventually(is_written_with_the_next)


def test_a_slow_snapshot_becomes_visible_late_with_its_original_content(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("snapshot-slow", topic=fixture.topic, delay_ms=2000)) as fault:
        began = time.monotonic()
        fixture.send(producer, *range(1, 6))
        eventually(lambda: fault.fired() == 1)
        fixture.send(producer, 6)
        assert fixture.snapshot() == {}
        eventually(lambda: fixture.snapshot() == {"p": 5})
        assert time.monotonic() - began > 1.9


def test_a_ledger_that_closes_slowly_delays_the_confirmation_of_its_last_entry(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("ledger-close-slow", topic=fixture.topic, delay_ms=800)) as fault:
        fixture.send(producer, 1, 2, 3, 4)
        assert fault.fired() == 0
        began = time.monotonic()
        assert is_stored(fixture.send(producer, 5))
        assert time.monotonic() - began > 0.75
        assert fault.fired() == 1
    assert is_stored(fixture.send(producer, 6))


def test_a_list_of_ledgers_that_is_stored_late_delays_the_entry_after_a_full_ledger(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    fixture.send(producer, 1, 2, 3, 4)
    with armed(fixture.agent, FailpointOnTopic("ledger-list-slow", topic=fixture.topic, delay_ms=800)) as fault:
        began = time.monotonic()
        assert is_stored(fixture.send(producer, 5))
        assert is_stored(fixture.send(producer, 6))
        assert time.monotonic() - began > 0.75
        assert fault.fired() == 1


def test_a_slow_replay_delays_producers_and_recovers_correctly(fixture: TopicFixture) -> None:
    producer = fixture.producer()
    fixture.send(producer, 1, 2)
    producer.close(timeout_s=10)
    with armed(fixture.agent, FailpointOnTopic("replay-slow", topic=fixture.topic, delay_ms=800)) as fault:
        began = time.monotonic()
        fixture.unload()
        producer = fixture.producer()
        assert time.monotonic() - began > 0.75
        assert fault.fired() == 1
    assert producer.last_sequence_id == 2
    assert is_duplicate(fixture.send(producer, 1))
    assert is_stored(fixture.send(producer, 3))


def test_a_crash_before_the_confirmation_leaves_the_entry_stored(fixture: TopicFixture) -> None:
    if Capability.KILL not in fixture.broker.capabilities:
        pytest.skip(f"{fixture.broker.name} does not come back from a crash")
    producer = fixture.producer()
    fixture.send(producer, 1)
    fault = arm(fixture.agent, FailpointOnTopic("crash-before-confirmation", topic=fixture.topic, count=2))
    fixture.send(producer, 2)
    assert isinstance(fixture.send(producer, 3), Lost)
    fixture.restart_after_crash()
    producer = fixture.producer()
    assert producer.last_sequence_id == 3
    assert is_duplicate(fixture.send(producer, 3))
    assert fixture.stored() == [("p", 1), ("p", 2), ("p", 3)]
    fixture.broker.load_agents()
    assert fault.fired() == 0, "nothing of a failpoint survives the process"
