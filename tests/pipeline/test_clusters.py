"""Histories of several clusters: sound ones hold, and planted anomalies are found by pipeline and oracle."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conformance.history import parquet
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import ADDED, Kind, Recorded
from conformance.pipeline.files.compacted_files import OpenedFile
from conformance.pipeline.invariants.catalogue import BY_NAME, OfClusters
from conformance.pipeline.results import NEEDED
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import random_histories, two_clusters
from tests.pipeline.histories.anomalies_of_clusters import PLANTS_OF_CLUSTERS

SETTING = VerificationSetting(on_its_way_ns=0, follows_within_ns=40 * two_clusters.STEP_NS)


def test_each_invariant_of_clusters_has_at_least_three_anomalies() -> None:
    assert set(PLANTS_OF_CLUSTERS) == {name for name, one in BY_NAME.items() if isinstance(one, OfClusters)}
    assert all(len(plants) >= 3 for plants in PLANTS_OF_CLUSTERS.values())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_two_sound_clusters_hold_and_exercise_all_of_document_001(seed: int) -> None:
    found = random_histories.judged(two_clusters.events(seed), setting=SETTING)
    assert random_histories.broken_in(found) == set()
    assert all(found[name][0] for name in PLANTS_OF_CLUSTERS)


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, plants in PLANTS_OF_CLUSTERS.items() for number in range(len(plants))]
)
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10**6))
@settings(max_examples=8)
def test_a_planted_anomaly_of_clusters_is_found_anywhere(name: str, number: int, seed: int, place: int) -> None:
    history = PLANTS_OF_CLUSTERS[name][number](two_clusters.events(seed), place)
    broken = random_histories.broken_in(random_histories.judged(history, setting=SETTING))
    assert name in broken
    assert broken == random_histories.broken_by_oracle(history, SETTING)


def test_clusters_that_do_not_replicate_a_topic_are_judged_separately() -> None:
    alone = [replace(one, replicated=None) for one in two_clusters.events(1) if one.kind is Kind.TOPIC]
    history = [*alone, *(one for one in two_clusters.events(1) if one.kind is not Kind.TOPIC)]
    found = random_histories.judged(history, setting=SETTING)
    assert not any(found[name][0] for name in PLANTS_OF_CLUSTERS)


def test_a_replicated_subscription_owes_messages_from_its_own_start() -> None:
    history = two_clusters.events(1)
    late = [replace(one, subscription="begun behind all") for one in history if one.subscription is not None]
    late = [replace(one, ledger=10**6, entry=0) if one.kind is Kind.BEGIN else one for one in late]
    name = "missed everywhere"
    number, _ = random_histories.judged(history, setting=SETTING)[name]
    assert random_histories.judged([*history, *late], setting=SETTING)[name] == (number, 0)
    assert number > 0


def test_all_clusters_of_a_topic_are_compacted_into_one_file(tmp_path: Path) -> None:
    written(tmp_path, two_clusters.events(1))
    compact(tmp_path, events_of_a_file=10)
    assert len(list(tmp_path.glob("bucket-*/compacted-*"))) == 1


def written(folder: Path, history: list[Recorded]) -> None:
    with HistoryWriter(folder, "w") as writer:
        for one in history:
            writer.record(one)


def test_files_of_the_time_before_clusters_are_read_and_compacted(tmp_path: Path) -> None:
    written(tmp_path, [replace(one, replicated=None, replicated_from=None) for one in two_clusters.events(1)])
    (path,) = tmp_path.glob("bucket-*/*.parquet")
    table = pq.read_table(path)
    parquet.write_file(table.drop_columns(sorted(ADDED)), path)
    assert sum(batch.num_rows for batch in OpenedFile(str(path), None).batches(NEEDED)) == len(table)
    compact(tmp_path)
    (compacted,) = tmp_path.glob("bucket-*/*.parquet")
    assert pq.read_table(compacted).select(table.schema.names).equals(table)
