"""Shadow defects: each breaks the rule of a deviation nearby in another way, and is found although that is known.

The simulated broker has the deviation and its shadow at once. Where a deviation excuses more than its cause affects,
its shadow is not found. Shadows of small histories are in the tests of the model, and those of real brokers among the
seeded defects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
from msgspec.structs import replace

from conformance.engine.machines import Machine
from model.deduplication.variants import Variant
from model.deviations import DEVIATIONS
from stateful import test_cursors, test_deduplication
from tests.lockstep.campaigns import MakePerformer, play_in_rounds
from tests.lockstep.simulated.variants import SimulatedVariant
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.stateful.machines import LostAcksMachine, ManyRangesMachine, OwnPolicyMachine, TerminatedMachine

ACKNOWLEDGMENT, NETWORK, _, CLIENTS, _, KILLS = test_cursors.MACHINES
SETTINGS, DEDUPLICATION, FAILURES, _, _, DEDUPLICATION_KILLS = test_deduplication.MACHINES
LOST_ACKS = Machine(name="lost acks", factory=LostAcksMachine, decides=())
MANY_RANGES = Machine(name="many ranges", factory=ManyRangesMachine, decides=())
TERMINATED = Machine(name="terminated", factory=TerminatedMachine, decides=())
OWN_POLICY = Machine(name="own policy", factory=OwnPolicyMachine, decides=())
ROUNDS, EXAMPLES = 8, 25


@dataclass(frozen=True)
class Shadowed:
    """A broker with a deviation and its shadow, the machine that finds it, and the rules that it may break."""

    performer: MakePerformer
    machine: Machine
    rules: frozenset[str]


def of_cursors(deviation: str, shadow: str, machine: Machine, *rules: str) -> Shadowed:
    variant = SimulatedVariant(**{deviation.replace("-", "_"): True, shadow.replace("-", "_"): True})
    return Shadowed(partial(SimulatedPerformer, cursors=variant), machine, frozenset(rules))


def of_deduplication(performer: partial[SimulatedPerformer], shadow: str, machine: Machine, *rules: str) -> Shadowed:
    variant = replace(performer.keywords.get("variant", Variant()), **{shadow.replace("-", "_"): True})
    return Shadowed(partial(performer, variant=variant), machine, frozenset(rules))


PLAIN = partial(SimulatedPerformer)
ACKS = ("ACK-01", "ACK-02", "ACK-03", "ACK-04", "ACK-10", "ACK-12", "ACK-13")
SHADOWS: dict[str, dict[str, Shadowed]] = {
    deviation: {shadow: of_cursors(deviation, shadow, machine, *rules)}
    for deviation, shadow, machine, *rules in (
        ("partial-acks-not-persisted", "partial-acks-never-persisted", KILLS, "ACK-09", "ACK-15"),
        ("skip-rate-limited", "skip-never-persisted", KILLS, "ACK-16"),
        ("reset-miscounts-backlog", "backlog-of-messages", ACKNOWLEDGMENT, "ACK-01", "ACK-04", "SERVE-04"),
        ("batch-index-acks-not-recovered", "unload-loses-ranges", ACKNOWLEDGMENT, *ACKS),
        ("batch-index-acks-overwritten", "cumulative-one-too-few", ACKNOWLEDGMENT, *ACKS),
        ("flush-rate-limited", "never-flushed", KILLS, "ACK-08", "ACK-09"),
        ("lost-ack-filters-redelivery", "unacked-hidden-by-client", LOST_ACKS, "ACK-12", "SERVE-03"),
        ("nack-backoff-missing", "back-off-too-short", CLIENTS, "ACK-13"),
        ("range-limit-ignored-on-unload", "unload-goes-one-further", MANY_RANGES, "ACK-10"),
        ("unload-while-cursor-ledger-opens", "opening-loses-ranges", ACKNOWLEDGMENT, "ACK-10"),
        ("unacked-count-lowered-by-any-ack", "unacked-count-lowered-by-nack", ACKNOWLEDGMENT, "SERVE-04"),
        ("last-entry-not-in-backlog", "backlog-of-messages", ACKNOWLEDGMENT, "ACK-01", "ACK-04", "SERVE-04"),
        ("terminated-last-ledger-not-skipped", "skips-one-too-many", TERMINATED, "ACK-04", "ACK-10"),
        ("replay-read-outlives-consumers", "leaver-given-twice", ACKNOWLEDGMENT, "ACK-12", "ACK-13", "SERVE-04"),
    )
} | {
    "overlapping-batch-dropped": {
        "unknown-stored": of_deduplication(
            partial(PLAIN, variant=Variant(overlapping_batch_dropped=True)),
            "unknown-stored",
            DEDUPLICATION,
            *("DEDUP-03", "DEDUP-04", "DEDUP-09"),
        )
    },
    "pushed-id-in-producer-success": {
        "no-reset-after-failure": of_deduplication(
            partial(PLAIN, variant=Variant(pushed_id_in_producer_success=True)),
            "no-reset-after-failure",
            FAILURES,
            *("DEDUP-06", "DEDUP-09"),
        )
    },
    "batch-without-highest-id": {
        "strict-less-than": of_deduplication(
            partial(PLAIN, ends_of_batches=False), "strict-less-than", OWN_POLICY, "DEDUP-03", "DEDUP-09"
        )
    },
    "snapshot-position-ahead": {
        "replay-skips-one": of_deduplication(
            partial(PLAIN, variant=Variant(snapshot_position_ahead=True)),
            "replay-skips-one",
            DEDUPLICATION_KILLS,
            *("DEDUP-12", "DEDUP-09"),
        )
    },
}
"""By deviation, its shadow by name."""


@pytest.mark.parametrize(("deviation", "shadow"), [(one, name) for one, shadows in SHADOWS.items() for name in shadows])
def test_a_shadow_is_found_while_its_deviation_is_known(deviation: str, shadow: str) -> None:
    one = SHADOWS[deviation][shadow]
    campaign = play_in_rounds(
        one.machine,
        one.performer,
        rounds=ROUNDS,
        examples=EXAMPLES,
        known=frozenset(DEVIATIONS),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    assert found.violation.deviation is None
    assert found.violation.rule in one.rules | {"SERVE-08"}, found.violation.because  # right after a read


def test_every_entry_of_a_deviation_names_the_shadow_that_is_tried_here() -> None:
    of_brokers = {name: one.shadow.name for name, one in DEVIATIONS.items() if one.shadow.by == "simulated broker"}
    assert of_brokers == {name: next(iter(shadows)) for name, shadows in SHADOWS.items()}
