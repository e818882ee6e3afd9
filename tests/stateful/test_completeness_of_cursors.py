"""No misses of document 003: what a broker or a client does otherwise is found, under a rule that it breaks.

The broker is a simulated one, whose subscriptions do one thing differently. What releases are known to do otherwise is
met, reported by its name, and hides nothing; where it is not known it is a violation of that name.
"""

from __future__ import annotations

from functools import partial

import pytest

from conformance.engine.machines import Machine
from model.deviations import BY_DOCUMENT, DEVIATIONS
from model.deviations.cursors import (
    BATCH_INDEX_ACKS_NOT_RECOVERED,
    BATCH_INDEX_ACKS_OVERWRITTEN,
    FLUSH_RATE_LIMITED,
    LOST_ACK_FILTERS_REDELIVERY,
    NACK_BACKOFF_MISSING,
    PARTIAL_BATCH_OFF_BACKLOG,
    RANGE_LIMIT_IGNORED_ON_UNLOAD,
    REPLAY_READ_OUTLIVES_CONSUMERS,
    RESET_MISCOUNTS_BACKLOG,
    SEND_IN_PROGRESS_CLEARED_EARLY,
    TERMINATED_LAST_LEDGER_NOT_SKIPPED,
    UNACKED_COUNT_LOWERED_BY_ANY_ACK,
    UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
)
from stateful.test_cursors import MACHINES
from tests.lockstep.campaigns import Campaign, play_in_rounds
from tests.lockstep.cursor_variants import SimulatedVariant
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.stateful.machines import LostAcksMachine, ManyRangesMachine, TerminatedMachine

ACKNOWLEDGMENT, NETWORK, CLIENTS, _, KILLS = MACHINES
LOST_ACKS = Machine(name="lost acks", factory=LostAcksMachine, decides=())
MANY_RANGES = Machine(name="many ranges", factory=ManyRangesMachine, decides=())
TERMINATED = Machine(name="terminated", factory=TerminatedMachine, decides=())
AFTER_A_MOVE = "ACK-10"
"""What is blamed for a state that is seen to be wrong only once the topic was moved, whatever did it."""
ROUNDS, EXAMPLES = 12, 25
"""How many examples a machine may take, in rounds; most variants are found in the first."""

OF_ACKS = {"ACK-01", "ACK-02", "ACK-03", "ACK-04", "ACK-12", "ACK-13"}
"""What is blamed for a wrong set of acknowledged messages, seen in the cursor or in what is delivered or is not."""

FOUND = {
    "hole_jumped": (ACKNOWLEDGMENT, OF_ACKS),
    "lost_at_boundary": (ACKNOWLEDGMENT, OF_ACKS),
    "bit_off_by_one": (ACKNOWLEDGMENT, OF_ACKS),
    "repeated_ack_takes_back": (ACKNOWLEDGMENT, OF_ACKS),
    "cumulative_one_too_many": (ACKNOWLEDGMENT, {"ACK-04"}),
    "cumulative_one_too_few": (ACKNOWLEDGMENT, {"ACK-04"}),
    "acks_another_subscription": (ACKNOWLEDGMENT, {"ACK-01", "ACK-03", "ACK-04", "ACK-05", "ACK-12", "ACK-14"}),
    "part_takes_whole_batch": (ACKNOWLEDGMENT, OF_ACKS),
    "part_ignored": (ACKNOWLEDGMENT, OF_ACKS),
    "mark_delete_stays": (ACKNOWLEDGMENT, {"ACK-02"}),
    "backlog_of_messages": (ACKNOWLEDGMENT, {"ACK-01", "ACK-04"}),
    "unload_loses_ranges": (ACKNOWLEDGMENT, {"ACK-01", "ACK-10", "ACK-12"}),
    "unload_goes_one_further": (ACKNOWLEDGMENT, {"ACK-10"}),
    "unload_bypasses_store": (ACKNOWLEDGMENT, {"ACK-10"}),
    "kill_loses_all": (KILLS, {"ACK-08", "ACK-09"}),
    "kill_acknowledges": (KILLS, {"ACK-09"}),
    "never_flushed": (KILLS, {"ACK-08", "ACK-09"}),
    "limited_tenfold": (KILLS, {"ACK-08", "ACK-09"}),
    "unlimited": (KILLS, {"ACK-08"}),
    "delivered_to_two": (ACKNOWLEDGMENT, {"ACK-12"}),
    "left_forgotten": (ACKNOWLEDGMENT, {"ACK-01", "ACK-12"}),
    "nack_redelivers_all": (ACKNOWLEDGMENT, {"ACK-12", "ACK-13"}),
    "nack_ignored": (ACKNOWLEDGMENT, {"ACK-12", "ACK-13"}),
    "nack_uncounted": (ACKNOWLEDGMENT, {"ACK-13"}),
    "acknowledged_delivered": (ACKNOWLEDGMENT, {"ACK-01", "ACK-02", "ACK-03", "ACK-04"}),
    "trims_unacknowledged": (ACKNOWLEDGMENT, {"ACK-14"}),
    "set_one_late": (ACKNOWLEDGMENT, {"ACK-01"}),
    "skips_one_too_many": (ACKNOWLEDGMENT, {"ACK-04"}),
    "skip_all_leaves_one": (ACKNOWLEDGMENT, {"ACK-04"}),
    "expires_one_too_many": (ACKNOWLEDGMENT, {"ACK-04"}),
    "close_loses_acks": (CLIENTS, {"ACK-01", "ACK-11"}),
    "back_off_too_short": (CLIENTS, {"ACK-13"}),
    "range_start_included": (ACKNOWLEDGMENT, {"ACK-10"}),
    "crash_acknowledges": (ACKNOWLEDGMENT, OF_ACKS | {"ACK-11"}),
}
"""For each variant the machine that is to find it, and the rules that are a sensible name for what it does."""

DEVIATING = {
    RESET_MISCOUNTS_BACKLOG: ACKNOWLEDGMENT,
    BATCH_INDEX_ACKS_NOT_RECOVERED: ACKNOWLEDGMENT,
    BATCH_INDEX_ACKS_OVERWRITTEN: ACKNOWLEDGMENT,
    UNLOAD_WHILE_CURSOR_LEDGER_OPENS: ACKNOWLEDGMENT,
    FLUSH_RATE_LIMITED: KILLS,
    NACK_BACKOFF_MISSING: CLIENTS,
    LOST_ACK_FILTERS_REDELIVERY: LOST_ACKS,
    RANGE_LIMIT_IGNORED_ON_UNLOAD: MANY_RANGES,
    TERMINATED_LAST_LEDGER_NOT_SKIPPED: TERMINATED,
    REPLAY_READ_OUTLIVES_CONSUMERS: ACKNOWLEDGMENT,
    UNACKED_COUNT_LOWERED_BY_ANY_ACK: ACKNOWLEDGMENT,
    PARTIAL_BATCH_OFF_BACKLOG: ACKNOWLEDGMENT,
}
"""For each deviation a machine that meets it."""

ALIKE = {
    BATCH_INDEX_ACKS_NOT_RECOVERED: {UNLOAD_WHILE_CURSOR_LEDGER_OPENS},
    TERMINATED_LAST_LEDGER_NOT_SKIPPED: {UNLOAD_WHILE_CURSOR_LEDGER_OPENS},
}
"""What else may have been it: where only parts of batches were acknowledged since the ledger was asked for, and where a
topic was moved soon after it was to be skipped, so that nobody can tell a skip that was forgotten from one that was not
done."""


def variant(switch: str) -> partial[SimulatedPerformer]:
    return partial(SimulatedPerformer, cursors=SimulatedVariant(**{switch.replace("-", "_"): True}))


def in_rounds(machine: Machine, switch: str, known: frozenset[str], *, to_be_met: str = "") -> Campaign:
    """Play until something is found, or the deviation is met."""

    def is_enough(campaign: Campaign) -> bool:
        return bool(campaign.found) or to_be_met in campaign.deviations

    return play_in_rounds(machine, variant(switch), rounds=ROUNDS, examples=EXAMPLES, known=known, until=is_enough)


def test_every_variant_is_looked_for() -> None:
    of_releases = {name.replace("-", "_") for name in DEVIATING}
    allowed, of_the_log = {"acknowledges_entries"}, {"entries_go_on", "ledger_reopened"}
    assert set(FOUND) | of_releases | allowed | of_the_log == set(SimulatedVariant.__struct_fields__)


@pytest.mark.parametrize("name", FOUND)
def test_a_variant_is_found_and_a_rule_that_it_breaks_is_blamed(name: str) -> None:
    machine, rules = FOUND[name]
    found, *_ = in_rounds(machine, name, frozenset(DEVIATIONS)).found
    assert found.violation.deviation is None
    assert found.violation.rule in rules | {AFTER_A_MOVE}, found.violation.because


@pytest.mark.parametrize("name", ["left_forgotten", "lost_at_boundary", "cumulative_one_too_few", "delivered_to_two"])
def test_a_variant_is_found_where_consumers_are_cut_off(name: str) -> None:
    found, *_ = in_rounds(NETWORK, name, frozenset(DEVIATIONS)).found
    assert found.violation.deviation is None
    assert found.violation.rule in FOUND[name][1] | {AFTER_A_MOVE}, found.violation.because


@pytest.mark.parametrize("name", DEVIATING)
def test_a_known_deviation_is_tolerated_and_reported_by_its_name(name: str) -> None:
    campaign = in_rounds(DEVIATING[name], name, frozenset(DEVIATIONS), to_be_met=name)
    assert [found.violation for found in campaign.found] == []
    assert name in campaign.deviations
    assert set(campaign.deviations) <= {name} | ALIKE.get(name, set())


@pytest.mark.parametrize("name", DEVIATING)
def test_a_deviation_that_is_not_known_breaks_its_rule_by_its_name(name: str) -> None:
    found, *_ = in_rounds(DEVIATING[name], name, frozenset(DEVIATIONS) - {name} - ALIKE.get(name, set())).found
    assert found.violation.deviation in {name} | ALIKE.get(name, set())


def test_every_deviation_of_document_003_is_simulated() -> None:
    # The simulated dispatcher has no second dispatch in progress.
    assert {*DEVIATING, SEND_IN_PROGRESS_CLEARED_EARLY} == {deviation.name for deviation in BY_DOCUMENT["cursors"]}
