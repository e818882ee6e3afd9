"""What a broker counts wrongly after an administrator's operation, and only right after it, is found."""

from __future__ import annotations

import random
from functools import partial

import pytest
from msgspec.structs import replace

from conformance.engine.machines import Machine
from conformance.lockstep.performer import Performed
from model.deviations import DEVIATIONS
from model.events import CursorRead, Refused, Skipped
from model.log import EARLIEST
from model.operations import AnyOperation, Terminate, Trim
from model.subscription_operations import DeleteSubscription, Expire, ReadCursor, ResetCursor, Seek, Skip, SkipAll
from stateful import test_cursors, test_key_shared, test_service
from tests.lockstep.campaigns import MakePerformer, play_in_rounds
from tests.lockstep.simulated.world import SimulatedPerformer

ACKNOWLEDGMENT, *_ = test_cursors.MACHINES
SERVICE, *_ = test_service.MACHINES
KEYS_AGAIN = next(machine for machine in test_key_shared.MACHINES if machine.name == "keys-again")


class MiscountsAfter(SimulatedPerformer):
    """A simulated broker whose stats are wrong at the first look after one operation, and right again after that."""

    def __init__(self, chance: random.Random, after: type[AnyOperation]) -> None:
        super().__init__(chance)
        self._after = after
        self._is_just_done = False

    def perform(self, operation: AnyOperation) -> Performed:
        done = super().perform(operation)
        if isinstance(operation, self._after) and not isinstance(done.outcome, Skipped | Refused):
            self._is_just_done = True
        elif isinstance(operation, ReadCursor) and self._is_just_done:
            self._is_just_done = False
            return self._miscounted(done)
        elif type(operation).__name__ not in ("ReceiveDue", "ReadCursor"):
            self._is_just_done = False
        return done

    def _miscounted(self, done: Performed) -> Performed:
        if isinstance(done.outcome, CursorRead):
            return done._replace(outcome=replace(done.outcome, backlog=done.outcome.backlog + 1))
        if self._after is DeleteSubscription:
            return done._replace(outcome=CursorRead(EARLIEST, (), 0, 0))
        return done


class MiscountsTheSum(SimulatedPerformer):
    """A simulated broker that counts one message too many for a subscription, but not at its consumers."""

    def perform(self, operation: AnyOperation) -> Performed:
        done = super().perform(operation)
        if not isinstance(done.outcome, CursorRead) or not done.outcome.arrived:
            return done
        return done._replace(outcome=replace(done.outcome, unacknowledged=done.outcome.unacknowledged + 1))


@pytest.mark.parametrize(
    ("operation", "machine"),
    [
        *((one, ACKNOWLEDGMENT) for one in (Skip, SkipAll, Expire, ResetCursor, Seek, Terminate, Trim)),
        *((one, SERVICE) for one in (Skip, ResetCursor, DeleteSubscription)),
        (DeleteSubscription, ACKNOWLEDGMENT),
        *((one, KEYS_AGAIN) for one in (Skip, ResetCursor, Seek)),
    ],
    ids=lambda one: getattr(one, "name", getattr(one, "__name__", "")),
)
def test_a_wrong_backlog_right_after_an_operation_is_found(operation: type[AnyOperation], machine: Machine) -> None:
    rule = "ACK-19" if operation is DeleteSubscription else "SERVE-04"
    assert found_by(machine, partial(MiscountsAfter, after=operation)) == rule


def test_a_sum_that_differs_from_what_it_is_the_sum_of_is_found() -> None:
    assert found_by(ACKNOWLEDGMENT, MiscountsTheSum) in ("SERVE-04", "SERVE-08")  # the latter right after a read


def found_by(machine: Machine, performer: MakePerformer) -> str:
    """The rule of the first violation that a machine finds while all deviations are known."""
    campaign = play_in_rounds(
        machine,
        performer,
        rounds=8,
        examples=25,
        known=frozenset(DEVIATIONS),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    return found.violation.rule
