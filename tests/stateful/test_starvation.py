"""A starved consumer is found in every operation that shows it.

The simulated broker loses the messages that it dispatches in one operation only.
"""

from __future__ import annotations

import pytest

from conformance.engine.machines import Machine
from conformance.lockstep.performer import Performed
from model.events import CursorRead, DueReceived, RedeliveryTimes, Starved
from model.operations import AnyOperation
from model.subscription_operations import ReadCursor
from stateful import test_cursors, test_key_shared
from tests.model.key_shared.test_order import A, broken, gathers, joins, leaves, sent, share
from tests.model.key_shared.test_stalls import HIGH, LOW
from tests.model.test_ended_excuses import left_with_nothing
from tests.stateful.test_service import Change, found_first
from tests.verdicts import Happened

CLIENTS = next(machine for machine in test_cursors.MACHINES if machine.name == "acknowledgment-clients")
KEYS = next(machine for machine in test_key_shared.MACHINES if machine.name == "keys")
NOT_READ: Happened = ReadCursor("t", "s"), Starved("1 entries that nobody has are not delivered")


def nacked_message_lost(_: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, RedeliveryTimes):
        return done
    return done._replace(outcome=Starved("its redelivery does not come", (done.outcome.message,)))


def all_messages_lost(_: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, RedeliveryTimes):
        return done
    return done._replace(outcome=Starved("of 3 entries none is dispatched"))


def due_message_lost(_: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, DueReceived) or not any(one.messages for one in done.outcome.consumers):
        return done
    return done._replace(outcome=Starved("of what the broker says to have sent, not all arrived"))


def message_lost_at_the_end(_: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, CursorRead) or not done.outcome.arrived:
        return done
    return done._replace(outcome=Starved("1 entries that nobody has are not delivered"))


@pytest.mark.parametrize(
    ("change", "machine", "rules"),
    [
        (nacked_message_lost, CLIENTS, {"ACK-13"}),
        (all_messages_lost, CLIENTS, {"SERVE-03"}),
        (due_message_lost, KEYS, {"SERVE-03", "ACK-12"}),
        (message_lost_at_the_end, KEYS, {"SERVE-03", "ACK-12", "KEY-13", "SERVE-04"}),  # all may be acknowledged
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_message_that_does_not_arrive_is_found(change: Change, machine: Machine, rules: set[str]) -> None:
    violation = found_first(machine, change, examples=40)
    assert violation.rule in rules, violation.because


def test_a_consumer_alone_on_a_key_shared_subscription_is_given_what_is_due_when_the_cursor_is_read() -> None:
    begin = [*sent(A, A), *joins("c")]
    assert broken(*begin, NOT_READ) == "SERVE-03"
    again = [*begin, *joins("d"), gathers(share("c", 1), share("d")), leaves("c")]
    assert broken(*again, gathers(share("d", 1)), NOT_READ) == "SERVE-03"
    assert broken(*again, NOT_READ) == "KEY-13", "a look ahead may have passed over it, which is a deviation"


def test_a_stalled_key_shared_subscription_is_known_as_long_as_it_may_be_stalled() -> None:
    known = frozenset({"leave-triggers-no-read"})
    assert broken(*left_with_nothing(LOW), NOT_READ) == "KEY-13", "the deviation has its rule if it is not known"
    assert broken(*left_with_nothing(LOW), NOT_READ, known=known) is None
    assert broken(*left_with_nothing(HIGH), gathers(share("d", 1)), NOT_READ, known=known) == "SERVE-03"
