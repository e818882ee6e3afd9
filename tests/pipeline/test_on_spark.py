"""The pipeline on Spark gives the same verdicts as without: compacted or not, in one folder or in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import Phase, given, seed, settings
from pyspark.sql import SparkSession

from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import KILL, Kind, Recorded
from conformance.pipeline.files.file_systems import HadoopStorage
from conformance.pipeline.files.history_files import Files, examine
from conformance.pipeline.files.spark_rows import events_of, without_topic
from conformance.pipeline.invariants.catalogue import BY_NAME
from conformance.pipeline.spark_results import evidence, results, results_of
from conformance.pipeline.topic import VerificationSetting
from tests.history.samples import event
from tests.pipeline.histories import random_histories

TOPICS_OF_EACH = 40

Counts = dict[str, tuple[int, int]]
"""For each invariant, how often it was judged, and broken."""


def _place_in_order(one: Recorded) -> tuple[object, ...]:
    """Two events of a kind with the same position and time may be in any order: one of them is enough."""
    return one.kind, one.ledger, one.entry, one.batch_index, one.completed_ns, one.subscription


@pytest.fixture(scope="module")
def history() -> list[Recorded]:
    """Many topics with random events, over two runs and clusters."""
    topics: list[list[Recorded]] = []
    for name in random_histories.RELEVANT:

        @seed(1)
        @settings(max_examples=TOPICS_OF_EACH, database=None, phases=[Phase.generate])
        @given(random_histories.framed(name))
        def draw(topic: list[Recorded]) -> None:
            topics.append(topic)

        draw()
    return [
        msgspec.structs.replace(one, run=f"r{number % 2}", cluster=f"c{number % 3 % 2}", topic=f"t{number}")
        for number, topic in enumerate(topics)
        for one in {_place_in_order(one): one for one in topic}.values()
    ]


@pytest.fixture(scope="module")
def expected(history: list[Recorded]) -> Counts:
    """The counts of the pipeline without Spark."""
    return random_histories.judged(history)


def write(folder: Path, history: Sequence[Recorded], *, lane: str = "w", segment_events: int = 50) -> None:
    """A history of many small segments."""
    with HistoryWriter(folder, lane, buckets=4, segment_events=segment_events) as writer:
        for one in history:
            writer.record(one)


def judged(spark: SparkSession, files: Files) -> Counts:
    """The counts of the pipeline on Spark."""
    setting = replace(random_histories.SETTING, faults=without_topic(spark, files).faults)
    rows = results_of(spark, files, setting).collect()
    return random_histories.counted([row.asDict() for row in rows])


def test_segments_that_were_not_compacted_are_sorted_first(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], expected: Counts
) -> None:
    write(tmp_path, history)
    files = examine(HadoopStorage(spark), [str(tmp_path)])
    assert (files.in_order, files.problems) == ((), ())
    found = judged(spark, files)
    assert found == expected
    assert len(random_histories.broken_in(found)) > len(BY_NAME) / 2


def test_compacted_files_are_judged_in_one_pass_without_a_shuffle(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], expected: Counts
) -> None:
    write(tmp_path, history)
    compact(tmp_path)
    files = examine(HadoopStorage(spark), [str(tmp_path)])
    assert (len(files.in_order), files.loose) == (4, ())
    for found in (
        results_of(spark, files, VerificationSetting()),
        results(events_of(spark, files), VerificationSetting()),
    ):
        assert found.rdd.getNumPartitions() == 4
        plan = found._jdf.queryExecution().toString()
        assert "Exchange" not in plan
        assert "MapInArrow" in plan
    assert judged(spark, files) == expected


def test_compacted_files_are_judged_without_copying_events_from_java(
    spark: SparkSession, tmp_path: Path, history: list[Recorded]
) -> None:
    write(tmp_path, history)
    compact(tmp_path)
    plan = (
        results_of(spark, examine(HadoopStorage(spark), [str(tmp_path)]), VerificationSetting())
        ._jdf.queryExecution()
        .toString()
    )
    assert "parquet" not in plan.lower().replace(".parquet", "")


def test_files_of_another_file_system_are_judged_like_local_ones(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], expected: Counts
) -> None:
    write(tmp_path, history)
    compact(tmp_path)
    mounted = "fs.viewfs.mounttable.somewhere.link./histories"
    spark._jsparkSession.sparkContext().hadoopConfiguration().set(mounted, tmp_path.as_uri())
    files = examine(HadoopStorage(spark), ["viewfs://somewhere/histories"])
    assert (len(files.in_order), files.loose, files.problems) == (4, (), ())
    assert not any(file.is_local for file in files.in_order)
    assert judged(spark, files) == expected


def test_segments_written_after_compacting_are_read_with_the_compacted_files(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], expected: Counts
) -> None:
    *_, last = history
    before, after = [[one for one in history if (one.topic == last.topic) is is_last] for is_last in (False, True)]
    write(tmp_path, before)
    compact(tmp_path)
    write(tmp_path, after)
    files = examine(HadoopStorage(spark), [str(tmp_path)])
    assert files.in_order
    assert files.loose
    assert judged(spark, files) == expected


def test_a_run_may_be_spread_over_several_folders(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], expected: Counts
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        write(folder, history[number::2], lane=f"w{number}")
        compact(folder)
    files = examine(HadoopStorage(spark), [str(folder) for folder in folders])
    assert not files.in_order
    assert judged(spark, files) == expected


def test_a_segment_whose_replacement_exists_is_not_read_twice(
    spark: SparkSession, tmp_path: Path, history: list[Recorded]
) -> None:
    write(tmp_path, history[:300])
    kept = {path: path.read_bytes() for path in tmp_path.glob("*/*.parquet")}
    compact(tmp_path)
    for path, content in kept.items():
        path.write_bytes(content)
    assert judged(spark, examine(HadoopStorage(spark), [str(tmp_path)])) == random_histories.judged(history[:300])


def test_a_fault_of_a_whole_cluster_affects_only_its_topics(spark: SparkSession, tmp_path: Path) -> None:
    recorded: list[Recorded] = []
    for cluster in ("a", "b"):
        place = {"cluster": cluster, "subscription": "s", "ledger": 1, "entry": 1}
        recorded.append(event(Kind.ACK, **place, invoked_ns=10, completed_ns=11))
        recorded.append(event(Kind.DISPATCH, **place, invoked_ns=30, completed_ns=31))
    recorded.append(event(Kind.FAULT, topic=None, cluster="a", fault=KILL, invoked_ns=12, completed_ns=20))
    write(tmp_path, recorded)
    files = examine(HadoopStorage(spark), [str(tmp_path)])
    setting = VerificationSetting(persisted_after_ns=5, on_its_way_ns=0, faults=without_topic(spark, files).faults)
    (case,) = evidence(events_of(spark, files), setting, BY_NAME["delivered again"]).collect()
    assert (case["rule"], case["topic"], case["cluster"]) == ("ACK-09", "t", "b")
    assert [(shown["kind"], shown["invoked_ns"]) for shown in case["events"]] == [("ack", 10), ("dispatch", 30)]


def test_files_that_are_not_compacted_are_sorted_on_every_core(
    spark: SparkSession, tmp_path: Path, history: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, history[:300])
    files = examine(HadoopStorage(spark), [str(tmp_path)])
    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 3)
    assert events_of(spark, files).rdd.getNumPartitions() == 3
