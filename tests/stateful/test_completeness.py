"""Completeness: a broker that differs from the document is found, by a rule that it breaks.

The broker is simulated with a variant of the reference. Variants that need longer runs, or that the assumptions about
the log rule out, are left to the explorations, which show what each variant breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from conformance.engine.machines import Machine
from model.deduplication.variants import VARIANTS, Variant
from model.deviations import DEVIATIONS
from model.variants import Origin
from stateful.test_deduplication import MACHINES
from tests.lockstep.campaigns import Campaign, MakePerformer, play_in_rounds
from tests.lockstep.simulated.broker import Purging
from tests.lockstep.simulated.variants import deduplication
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.stateful.machines import OwnPolicyMachine, SwitchingMachine

SETTINGS, DEDUPLICATION, FAILURES, INACTIVITY, NETWORK, KILLS = MACHINES
OWN_POLICY = Machine(name="own policy", factory=OwnPolicyMachine, decides=())
SWITCHING = Machine(name="switched in flight", factory=SwitchingMachine, decides=())
EXAMPLES = 150
"""How many examples a machine may run from one seed; most variants are found within ten."""
SEEDS = 6
"""How many seeds it may try: the success of one seed is luck, and changes with every change of the simulation."""

FOUND = {
    "judged-when-off": (DEDUPLICATION, {"DEDUP-01"}),
    "no-check": (DEDUPLICATION, {"DEDUP-03", "DEDUP-09"}),
    "strict-less-than": (DEDUPLICATION, {"DEDUP-03", "DEDUP-09"}),
    "shared-maps": (DEDUPLICATION, {"DEDUP-07", "DEDUP-10"}),
    "duplicate-refused": (DEDUPLICATION, {"DEDUP-03"}),
    "unknown-confirmed": (FAILURES, {"DEDUP-03", "DEDUP-04", "DEDUP-09"}),
    "unknown-stored": (DEDUPLICATION, {"DEDUP-03", "DEDUP-04", "DEDUP-09"}),
    "reset-on-unknown": (DEDUPLICATION, {"DEDUP-03"}),
    "persisted-before-write": (FAILURES, {"DEDUP-04", "DEDUP-05", "DEDUP-06", "DEDUP-09"}),
    "pushed-after-write": (DEDUPLICATION, {"DEDUP-03", "DEDUP-05", "DEDUP-09"}),
    "no-reset-after-failure": (FAILURES, {"DEDUP-06"}),
    "failed-write-stored": (FAILURES, {"DEDUP-03", "DEDUP-06"}),
    "snapshot-of-pushed": (KILLS, {"DEDUP-09", "DEDUP-10", "DEDUP-12"}),
    "snapshot-not-cut": (DEDUPLICATION, {"DEDUP-10"}),
    "failed-snapshot-forgets": (FAILURES, {"DEDUP-10", "DEDUP-11"}),
    "recovery-without-replay": (KILLS, {"DEDUP-03", "DEDUP-12"}),
    "replay-skips-one": (KILLS, {"DEDUP-03", "DEDUP-12"}),
    "replay-counts-lowest": (KILLS, {"DEDUP-12"}),
    "inactive-forgotten": (DEDUPLICATION, {"DEDUP-09", "DEDUP-10", "DEDUP-12", "DEDUP-20"}),
}
"""For each variant the machine that must find it, and the rules that may be named for it."""

DEVIATING = {
    "overlapping-batch-dropped": (
        DEDUPLICATION,
        partial(SimulatedPerformer, variant=Variant(overlapping_batch_dropped=True)),
    ),
    "pushed-id-in-producer-success": (
        FAILURES,
        partial(SimulatedPerformer, variant=Variant(pushed_id_in_producer_success=True)),
    ),
    "batch-without-highest-id": (OWN_POLICY, partial(SimulatedPerformer, ends_of_batches=False)),
    "last-sequence-id-falls": (DEDUPLICATION, partial(SimulatedPerformer, account="latest")),
    "consecutive-batch-assumed": (DEDUPLICATION, partial(SimulatedPerformer, account="latest")),
    "second-recovery-not-awaited": (OWN_POLICY, partial(SimulatedPerformer, recovery_races=True)),
    "snapshot-position-ahead": (FAILURES, partial(SimulatedPerformer, variant=Variant(snapshot_position_ahead=True))),
    "deduplication-enabled-in-flight": (
        SWITCHING,
        partial(
            SimulatedPerformer,
            variant=Variant(deduplication_enabled_in_flight=True, pushed_id_in_producer_success=True),
        ),
    ),
}
"""For each deviation a machine that meets it, and a broker with only that deviation."""

ALIKE = {
    "overlapping-batch-dropped": {"batch-without-highest-id"},
    "deduplication-enabled-in-flight": {"pushed-id-in-producer-success"},
    "last-sequence-id-falls": {"consecutive-batch-assumed"},
    "consecutive-batch-assumed": {"last-sequence-id-falls"},
}
"""Other deviations that explain the same: a dropped batch of pulsar-client may be one without highest id, and both
mistakes of its own account are in one line of it."""


def run(
    machine: Machine, performer: MakePerformer, known: Iterable[str], until: Callable[[Campaign], bool]
) -> Campaign:
    return play_in_rounds(machine, performer, rounds=SEEDS, examples=EXAMPLES, known=frozenset(known), until=until)


def test_every_defect_and_every_reading_of_the_document_has_a_machine() -> None:
    looked_for = {named.name for named in VARIANTS if named.origin in (Origin.DEFECT, Origin.READING)}
    assert looked_for <= set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_a_variant_is_found_by_a_rule_that_it_breaks(name: str) -> None:
    machine, rules = FOUND[name]
    performer = partial(SimulatedPerformer, variant=deduplication(name), snapshot_room=3)
    found, *_ = run(machine, performer, DEVIATIONS, lambda campaign: bool(campaign.found)).found
    assert found.violation.deviation is None
    assert found.violation.rule in rules, found.violation.because


@pytest.mark.parametrize("name", ["no-check", "strict-less-than", "recovery-without-replay", "replay-skips-one"])
def test_a_variant_is_found_when_connections_are_cut(name: str) -> None:
    performer = partial(SimulatedPerformer, variant=deduplication(name))
    found, *_ = run(NETWORK, performer, DEVIATIONS, lambda campaign: bool(campaign.found)).found
    assert found.violation.rule in FOUND[name][1], found.violation.because


def test_a_broker_that_ignores_its_own_setting_is_found() -> None:
    performer = partial(SimulatedPerformer, heeds_settings=False)
    found, *_ = run(SETTINGS, performer, DEVIATIONS, lambda campaign: bool(campaign.found)).found
    assert found.violation.deviation is None
    assert found.violation.rule == "DEDUP-01", found.violation.because


@pytest.mark.parametrize(
    ("performer", "rule"),
    [
        (partial(SimulatedPerformer, account="lowest"), "DEDUP-19"),
        (partial(SimulatedPerformer, takes_snapshots=False), "DEDUP-11a"),
    ],
)
def test_a_wrong_account_or_a_missing_snapshot_is_found(performer: MakePerformer, rule: str) -> None:
    found, *_ = run(DEDUPLICATION, performer, DEVIATIONS, lambda campaign: bool(campaign.found)).found
    assert found.violation.deviation is None
    assert found.violation.rule == rule, found.violation.because


@pytest.mark.parametrize(
    "purging", [Purging(timeout_min=150), Purging(spares_connected=False), Purging(notices_return=False)], ids=str
)
def test_a_broker_that_forgets_active_producers_is_found(purging: Purging) -> None:
    performer = partial(SimulatedPerformer, purging=purging)
    found, *_ = run(INACTIVITY, performer, DEVIATIONS, lambda campaign: bool(campaign.found)).found
    assert found.violation.deviation is None
    assert found.violation.rule == "DEDUP-20", found.violation.because


@pytest.mark.parametrize("name", DEVIATING)
def test_a_known_deviation_is_tolerated_and_reported_by_name(name: str) -> None:
    machine, performer = DEVIATING[name]
    campaign = run(machine, performer, DEVIATIONS, lambda campaign: name in campaign.deviations)
    assert campaign.found == []
    assert name in campaign.deviations
    assert set(campaign.deviations) <= {name} | ALIKE.get(name, set())


@pytest.mark.parametrize("name", DEVIATING)
def test_an_unknown_deviation_breaks_its_rule_by_name(name: str) -> None:
    machine, performer = DEVIATING[name]
    campaign = run(machine, performer, (), lambda campaign: bool(campaign.found))
    assert {found.violation.deviation for found in campaign.found} <= {name} | ALIKE.get(name, set())
    assert campaign.found


def test_every_deviation_that_a_topic_can_show_is_simulated() -> None:
    shown_by_sources = {name for name, deviation in DEVIATIONS.items() if deviation.rule == "DEDUP-13"}
    of_other_documents = {name for name, deviation in DEVIATIONS.items() if not deviation.rule.startswith("DEDUP")}
    # test_topics_with_markers, test_late_policies, test_policies, test_snapshots, test_inactivity; of clients, which
    # are not simulated
    in_small_histories = {
        "connected-producer-purged",
        "second-recovery-counts-as-leave",
        "last-sequence-id-not-adopted",
        "last-sequence-id-of-batch-is-lowest",
        "marker-producer-in-snapshot",
        "topic-policies-not-read",
        "topic-policy-applied-late",
        "topic-policy-awaits-reload",
        "unused-subscription-hides-topic-policy",
        "timer-fails-without-deduplication",
        "deduplication-off-keeps-snapshot",
        "earlier-snapshot-shown",
    }
    assert set(DEVIATING) == set(DEVIATIONS) - shown_by_sources - of_other_documents - in_small_histories
