"""The machine of SERVE on the simulated broker: a broker that serves breaks no rule, and each way not to is found."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from conformance.engine.machines import Machine
from conformance.history.document import Violation
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.performer import Performed
from model.events import Abandoned, CursorRead, LogRead, Opened, ReceivedMessages, Refused, Skipped, Starved, Subscribed
from model.example import Example
from model.log import Position
from model.operations import AnyOperation, CreateTopic, LoseBookie, OfTwo, OpenProducer, RestoreBookies
from model.service.unexpected import Closed, ErrorAnswer, Silence
from model.subscription_operations import Acknowledge, ReadCursor, Receive, Subscribe
from model.upgrades import also_broken_by
from stateful.test_service import MACHINES
from tests.lockstep.campaigns import play, play_in_rounds
from tests.lockstep.simulated.policies import PoliciesVariant
from tests.lockstep.simulated.variants import SimulatedVariant
from tests.lockstep.simulated.world import SimulatedPerformer

SERVICE, *_ = MACHINES
SIMULATED = [
    machine
    for machine in MACHINES
    if machine.name in ("deduplication-takeovers", "acknowledgment-takeovers", "keys-takeovers", "bookies")
]
"""Those on several brokers or bookies that the simulated broker can play: nothing is frozen there, and no application
runs."""

UNDER_POLICIES = [machine for machine in MACHINES if machine.name.startswith("policies-")]

Change = Callable[[AnyOperation, Performed], Performed]
"""What a broker does instead of what a sound one did."""


class Misbehaving(SimulatedPerformer):
    """A simulated broker that does something else, here and there, than a sound one."""

    def __init__(self, chance: random.Random, change: Change) -> None:
        self._own_chance = random.Random()
        self._own_chance.setstate(chance.getstate())
        super().__init__(chance)
        self._change = change

    def perform(self, operation: AnyOperation) -> Performed:
        done = super().perform(operation)
        if isinstance(done.outcome, Skipped) or self._own_chance.random() < 0.7:
            return done
        return self._change(operation, done)


def stats_fail(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(operation, ReadCursor):
        return done
    return Performed(Abandoned("500"), unexpected=(ErrorAnswer("admin", "GET stats of topic t0", "500", "why", "t0"),))


def fails_at_first(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(operation, Subscribe):
        return done
    return done._replace(unexpected=(ErrorAnswer("binary", "Subscribe", "UnknownError", "why", "t0", is_last=False),))


def ack_unanswered(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(operation, Acknowledge):
        return done
    return Performed(Abandoned("no answer"), unexpected=(Silence("binary", "Acknowledge", "10 s", "t0"),))


def consumers_closed(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(operation, Receive):
        return done
    return done._replace(unexpected=(Closed(operation.consumer, "the broker closed the consumer", "t0"),))


def consumer_starved(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, ReceivedMessages) or not done.outcome.messages:
        return done
    return Performed(Starved("2 entries that nobody has are not delivered"))


def backlog_too_high(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, CursorRead):
        return done
    return done._replace(outcome=msgspec.structs.replace(done.outcome, backlog=done.outcome.backlog + 1))


def subscribe_refused(operation: AnyOperation, done: Performed) -> Performed:
    return done._replace(outcome=Refused("NotAllowedError")) if isinstance(done.outcome, Subscribed) else done


def all_types_let_in(operation: AnyOperation, done: Performed) -> Performed:
    is_refused = isinstance(operation, Subscribe) and isinstance(done.outcome, Refused)
    return done._replace(outcome=Subscribed()) if is_refused else done


def names_not_unique(operation: AnyOperation, done: Performed) -> Performed:
    is_refused = isinstance(operation, OpenProducer) and isinstance(done.outcome, Refused)
    return done._replace(outcome=Opened(-1)) if is_refused else done


def names_never_free(operation: AnyOperation, done: Performed) -> Performed:
    return done._replace(outcome=Refused("ProducerBusy")) if isinstance(done.outcome, Opened) else done


def blocked_for_nothing(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, ReceivedMessages):
        return done
    return done._replace(outcome=msgspec.structs.replace(done.outcome, blocked=True))


FOUND: dict[Change, set[str]] = {
    stats_fail: {"SERVE-01"},
    fails_at_first: {"SERVE-01"},
    ack_unanswered: {"SERVE-01"},
    consumers_closed: {"SERVE-02"},
    consumer_starved: {"SERVE-03", "SERVE-08", "ACK-12", "ACK-13"},
    backlog_too_high: {"SERVE-04"},
    subscribe_refused: {"SERVE-05", "SERVE-10", "KEY-17"},
    all_types_let_in: {"SERVE-05", "SERVE-10"},
    names_not_unique: {"SERVE-05", "SERVE-10", "SERVE-12"},
    names_never_free: {"SERVE-01", "SERVE-09", "SERVE-10"},
    blocked_for_nothing: {"SERVE-05"},
}


def found_first(machine: Machine, change: Change, *, examples: int) -> Violation:
    """The first violation that a machine finds in a broker that misbehaves."""
    return found_in(machine, partial(Misbehaving, change=change), examples=examples)


def found_in(
    machine: Machine, simulated: Callable[[random.Random], SimulatedPerformer], *, examples: int = 25, rounds: int = 6
) -> Violation:
    """The first violation that a machine finds in a simulated broker."""
    campaign = play_in_rounds(
        machine,
        simulated,
        rounds=rounds,
        examples=examples,
        known=frozenset(),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    return found.violation


def test_a_broker_that_serves_breaks_no_rule_and_all_rules_are_exercised() -> None:
    campaign = play(SERVICE.factory, SimulatedPerformer, examples=64, steps=SERVICE.steps, seeded=5)
    assert [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found] == []
    assert set(SERVICE.decides) <= set(campaign.exercised)


@pytest.mark.parametrize("change", FOUND, ids=lambda change: change.__name__)
def test_a_broker_that_does_not_is_found(change: Change) -> None:
    violation = found_first(SERVICE, change, examples=25)
    assert violation.rule in FOUND[change], violation.because


OF_ADMINISTRATORS = ("namespace_requests_lost", "first_subscription_cleared", "later_skip_lost")


@pytest.mark.parametrize("variant", OF_ADMINISTRATORS)
def test_requests_of_administrators_that_have_no_effect_are_found(variant: str) -> None:
    violation = found_in(SERVICE, partial(SimulatedPerformer, cursors=SimulatedVariant(**{variant: True})))
    assert violation.rule == "SERVE-11", violation.because


@pytest.mark.parametrize("machine", UNDER_POLICIES, ids=lambda machine: machine.name)
def test_a_crash_under_policies_breaks_no_rule(machine: Machine) -> None:
    campaign = play(machine.factory, SimulatedPerformer, examples=40, steps=machine.steps, seeded=5)
    assert [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found] == []
    assert campaign.exercised["SERVE-10"] > 0


def test_a_policy_that_a_crash_loses_is_found() -> None:
    forgetting = partial(SimulatedPerformer, policies=PoliciesVariant(forgotten_by_reload=True))
    assert found_in(UNDER_POLICIES[0], forgetting).rule == "SERVE-10"


POLICIES = {field.name: PoliciesVariant(**{field.name: True}) for field in dataclasses.fields(PoliciesVariant)}


@pytest.mark.parametrize("variant", POLICIES.values(), ids=POLICIES.keys())
def test_a_policy_that_is_not_in_force_is_found(variant: PoliciesVariant) -> None:
    machine = next(one for one in MACHINES if one.name == "policies")
    violation = found_in(machine, partial(SimulatedPerformer, policies=variant), rounds=12)
    assert violation.rule == "SERVE-10", violation.because


def last_entry_lost(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, LogRead):
        return done
    return done._replace(outcome=LogRead(done.outcome.entries[:-1]))


def last_entry_stored_again(operation: AnyOperation, done: Performed) -> Performed:
    if not isinstance(done.outcome, LogRead) or not done.outcome.entries:
        return done
    *_, last = done.outcome.entries
    again = msgspec.structs.replace(last, position=Position(last.position.ledger + 1, 0))
    return done._replace(outcome=LogRead((*done.outcome.entries, again)))


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.name)
def test_a_takeover_and_the_loss_of_a_bookie_break_no_rule(machine: Machine) -> None:
    campaign = play(machine.factory, SimulatedPerformer, examples=40, steps=machine.steps, seeded=5)
    assert [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found] == []
    assert set(machine.decides) <= set(campaign.exercised)


@pytest.mark.parametrize(
    ("change", "also"),
    [(last_entry_lost, None), (last_entry_stored_again, "DEDUP-03")],  # the document's rule, before any takeover
    ids=["last_entry_lost", "last_entry_stored_again"],
)
@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.name)
def test_an_entry_that_is_lost_or_stored_twice_is_found(machine: Machine, change: Change, also: str | None) -> None:
    violation = found_first(machine, change, examples=10)
    assert violation.rule in (*machine.decides, also), violation.because


@pytest.mark.parametrize("release", ["older", "newer"])
def test_what_one_release_stores_and_the_other_does_not_read_is_found(release: OfTwo) -> None:
    (machine,) = (one for one in SIMULATED if one.name == "acknowledgment-takeovers")
    campaign = play_in_rounds(
        machine,
        partial(SimulatedPerformer, unread_release=release),
        rounds=12,
        examples=25,
        known=frozenset(),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    assert found.violation.rule.startswith("ACK"), found.violation.because
    assert also_broken_by(found.steps) == ("SERVE-15",)


def test_an_example_that_is_cut_short_without_a_bookie_gets_it_back_before_it_is_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    for operation in (CreateTopic("t0", persistence="every-ack", quorum="3/2/2"), LoseBookie(0)):
        lockstep.do(operation)
    lockstep.finish()
    assert isinstance(lockstep.steps[2].operation, RestoreBookies)
