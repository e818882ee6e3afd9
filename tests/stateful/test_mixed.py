"""The mixed machine on simulated brokers: no false alarm, and what one document forbids is found beside the others.

The broker is the simulated one of documents 000, 003 and 004, as documented, with all that releases do otherwise, or
with one thing done differently.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest

from conformance.engine.machines import Machine
from conformance.engine.slices import topics_of
from conformance.history.document import Step
from model.chunking.variants import ChunksVariant
from model.cluster_operations import AWAY
from model.deduplication.variants import Variant
from model.deviations import DEVIATIONS
from model.example import Example
from model.explain import judge_step
from model.judgement import Allowed
from model.key_shared.variants import KeysVariant
from model.operations import OpenProducer
from stateful.test_mixed import MACHINES
from tests import verdicts
from tests.lockstep.campaigns import Campaign, play, play_in_rounds, refused
from tests.lockstep.simulated.replica import Replicate
from tests.lockstep.simulated.variants import AS_RELEASES, SimulatedVariant, deduplication
from tests.lockstep.simulated.world import SimulatedPerformer

MIXED, _, MIXED_CLUSTERS = MACHINES
SEEDS, EXAMPLES = range(1, 5), 32
ROUNDS = 10
AS_RELEASES_DO = partial(
    SimulatedPerformer,
    variant=Variant(
        overlapping_batch_dropped=True,
        pushed_id_in_producer_success=True,
        snapshot_position_ahead=True,
        deduplication_enabled_in_flight=True,
        chunks=ChunksVariant(only_last_deduplicated=True, recovery_counts_unfinished=True),
    ),
    cursors=AS_RELEASES,
)
OF_ACKS = {"ACK-01", "ACK-02", "ACK-03", "ACK-04", "ACK-10", "ACK-12", "ACK-13"}
FOUND: dict[str, tuple[dict[str, Any], set[str]]] = {
    "no-check": ({"variant": deduplication("no-check")}, {"DEDUP-03", "DEDUP-09", "CHUNK-13"}),
    "replay-skips-one": ({"variant": deduplication("replay-skips-one")}, {"DEDUP-03", "DEDUP-09", "DEDUP-12"}),
    "chunk-never-judged": ({"variant": Variant(chunks=ChunksVariant(never_judged=True))}, {"CHUNK-13"}),
    "ack_covers_whole_message": (
        {"cursors": SimulatedVariant(ack_covers_whole_message=True)},
        {*OF_ACKS, "KEY-05"},  # a chunk that was not sent yet may be what a hash blocks until it has drained
    ),
    "cumulative_one_too_many": ({"cursors": SimulatedVariant(cumulative_one_too_many=True)}, {"ACK-04", "ACK-10"}),
    "unload_loses_ranges": ({"cursors": SimulatedVariant(unload_loses_ranges=True)}, {"ACK-01", "ACK-10", "ACK-12"}),
    "left_forgotten": (
        {"cursors": SimulatedVariant(left_forgotten=True)},
        {"ACK-01", "ACK-12", "KEY-06", "KEY-09", "KEY-13"},
    ),
    "crash_acknowledges": (
        {"cursors": SimulatedVariant(crash_acknowledges=True)},
        OF_ACKS | {"ACK-11", "ACK-17", "KEY-02", "KEY-05", "KEY-06", "KEY-09", "KEY-13"},
    ),
    "no_draining": ({"keys": KeysVariant(no_draining=True)}, {"KEY-01", "KEY-02", "KEY-11"}),
    "leaver_forgotten": (
        {"keys": KeysVariant(leaver_forgotten=True)},
        {"KEY-05", "KEY-06", "KEY-09", "KEY-13"},
    ),
}
"""Variants of each document, and the rules that are a sensible name for what each does."""


BOTH = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@cache
def on_the_documents(machine: Machine) -> list[Campaign]:
    return [
        play(machine.factory, SimulatedPerformer, examples=EXAMPLES, steps=machine.steps, seeded=seed) for seed in SEEDS
    ]


def violations(campaign: Campaign) -> list[str]:
    return [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found]


@BOTH
def test_no_rule_is_broken_by_a_broker_that_does_as_the_documents_say(machine: Machine) -> None:
    campaigns = on_the_documents(machine)
    assert [why for campaign in campaigns for why in violations(campaign)] == []
    assert [campaign.deviations for campaign in campaigns if campaign.deviations] == []
    assert set(machine.decides) <= {rule for campaign in campaigns for rule in campaign.exercised}


def test_nor_by_one_that_deviates_as_releases_do_when_that_is_known() -> None:
    known = frozenset(DEVIATIONS)
    campaigns = [
        play(MIXED.factory, AS_RELEASES_DO, examples=EXAMPLES, steps=MIXED.steps, seeded=seed, known=known)
        for seed in SEEDS
    ]
    assert [why for campaign in campaigns for why in violations(campaign)] == []
    met = {name for campaign in campaigns for name in campaign.deviations}
    assert {DEVIATIONS[name].rule.split("-")[0] for name in met} >= {"DEDUP", "ACK", "CHUNK"}


@BOTH
def test_a_history_is_judged_again_to_the_same_end_and_can_be_replayed(machine: Machine) -> None:
    campaign = on_the_documents(machine)[0]
    exercised: Counter[str] = Counter()
    for steps in campaign.histories:
        judged = verdicts.judged(*steps)
        assert isinstance(judged, Allowed)
        exercised.update(judged.exercised)
    assert exercised == campaign.exercised
    assert refused(campaign) == []


def on_deduplicated_chunked_topics(steps: Sequence[Step]) -> Counter[str]:
    """How often each rule was exercised on topics with chunks and deduplication."""
    exercised: Counter[str] = Counter()
    state = Example(known=frozenset(DEVIATIONS))
    for step, topic in zip(steps, topics_of([step.operation for step in steps]), strict=True):
        judged = judge_step(state, step)
        assert isinstance(judged, Allowed)
        state = judged.state
        if has_deduplicated_chunks(state, topic or ""):
            exercised.update(judged.exercised)
    return exercised


def has_deduplicated_chunks(state: Example, topic: str) -> bool:
    if topic in state.chunking.topics:
        return state.chunking.topics[topic].deduplication
    followed, view = state.consumption.topics.get(topic), state.topics.get(topic)
    return followed is not None and bool(followed.log.chunks) and view is not None and view.enabled


def test_chunks_of_a_deduplicated_topic_are_judged_by_the_rules_of_all_documents() -> None:
    exercised: Counter[str] = Counter()
    for campaign in on_the_documents(MIXED):
        for steps in campaign.histories:
            exercised.update(on_deduplicated_chunked_topics(steps))
    assert {
        "CHUNK-13",
        "DEDUP-02",
        "DEDUP-03",
        "DEDUP-09",
        "DEDUP-12",
        *OF_ACKS,
        "KEY-01",
        "KEY-02",
    } <= exercised.keys()


TO_EITHER = [
    lambda replicate: partial(SimulatedPerformer, replicate=replicate),
    lambda replicate: partial(SimulatedPerformer, replicate_home=replicate),
]


@pytest.mark.parametrize("performing", TO_EITHER, ids=["to-the-other-cluster", "to-home"])
@pytest.mark.parametrize(
    "replicate",
    [
        lambda log: log[:-1],
        lambda log: log[1:],
        lambda log: [*log, *log[-1:]],
        lambda log: [*log[1:2], *log[:1], *log[2:]],
    ],
    ids=["last-lost", "first-lost", "last-twice", "first-two-swapped"],
)
def test_replication_that_does_not_keep_all_messages_in_order_is_found(
    replicate: Replicate, performing: Callable[[Replicate], Callable[[random.Random], SimulatedPerformer]]
) -> None:
    campaign = play_in_rounds(
        MIXED_CLUSTERS,
        performing(replicate),
        rounds=ROUNDS,
        examples=EXAMPLES,
        known=frozenset(),
        until=lambda campaign: any(found.violation.deviation is None for found in campaign.found),
    )
    by_deviation = {found.violation.deviation for found in campaign.found}
    assert {found.violation.rule for found in campaign.found} == {"REPL-01"}
    assert {None} <= by_deviation <= {None, "chunk-each-deduplicated", "overlapping-batch-dropped"}


def test_messages_of_the_other_cluster_are_judged_by_the_rules_of_all_documents() -> None:
    exercised: Counter[str] = Counter()
    for campaign in on_the_documents(MIXED_CLUSTERS):
        for steps in campaign.histories:
            if any(isinstance(step.operation, OpenProducer) and step.operation.cluster == AWAY for step in steps):
                judged = verdicts.judged(*steps)
                assert isinstance(judged, Allowed)
                exercised.update(judged.exercised)
    assert {"REPL-01", "REPL-14", "DEDUP-07", "DEDUP-10", "DEDUP-12", *OF_ACKS, "KEY-01", "KEY-11"} <= exercised.keys()


@pytest.mark.parametrize("entries", [1, 3])
def test_an_update_that_acknowledges_too_much_in_the_other_cluster_is_found(entries: int) -> None:
    campaign = play_in_rounds(
        MIXED_CLUSTERS,
        partial(SimulatedPerformer, updates_skip=entries),
        rounds=ROUNDS,
        examples=EXAMPLES,
        known=frozenset(),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    assert found.violation.rule == "REPL-14"
    assert found.violation.deviation in (None, "update-creates-at-latest"), "if it was everything up to the end"


@pytest.mark.parametrize("name", FOUND)
def test_a_variant_is_found_and_a_rule_that_it_breaks_is_blamed(name: str) -> None:
    options, rules = FOUND[name]
    performer = partial(SimulatedPerformer, **options)
    campaign = play_in_rounds(
        MIXED,
        performer,
        rounds=ROUNDS,
        examples=EXAMPLES,
        known=frozenset(DEVIATIONS),
        until=lambda campaign: bool(campaign.found),
    )
    found, *_ = campaign.found
    assert found.violation.deviation is None
    assert found.violation.rule in rules, found.violation.because
