"""The summary counts what runs did and how long it took, from the same files as the verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from conformance.history.about import About
from conformance.history.counts import counts_of
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import KILL, CallOutcome, Kind
from conformance.pipeline.spark_engine import SparkEngine
from conformance.pipeline.summary import Summary, summarise, write
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import about_runs, verify
from tests.history.samples import event

MS = 10**6


def summary_of(spark: SparkSession, folder: Path) -> Summary:
    """Ten messages sent to one cluster, delivered there after 5 ms and in another one after 40 ms.

    The first is not in the log. Each is acknowledged there 6 ms after it was sent, and before mark-delete in the other
    cluster 70 ms later; the last never.
    """
    late = 20 * 10**9
    with HistoryWriter(folder, "w", about=About(release="4.0.8")) as writer:
        for number in range(10):
            sent = 10**9 * (1 + number)
            message: dict[str, Any] = {"producer": "p", "sequence_id": number + 1, "cluster": "a"}
            here: dict[str, Any] = {"ledger": 1, "entry": number}
            there: dict[str, Any] = {"ledger": 2, "entry": number}
            writer.record(event(**message, **here, invoked_ns=sent, completed_ns=sent + 2 * MS))
            given: dict[str, Any] = {"kind": Kind.DISPATCH, "subscription": "s", "invoked_ns": None}
            writer.record(event(**message, **here, **given, completed_ns=sent + 5 * MS))
            writer.record(event(**message | {"cluster": "b"}, **there, **given, completed_ns=sent + 40 * MS))
            if number:
                read: dict[str, Any] = {"invoked_ns": late, "completed_ns": late}
                writer.record(event(Kind.LOG, **message, **here, **read))
                writer.record(event(Kind.LOG, **message | {"cluster": "b"}, **there, **read, replicated_from="a"))
            of_subscription: dict[str, Any] = {"subscription": "s", "completed_ns": sent + 76 * MS}
            acked: dict[str, Any] = {"cluster": "a", "invoked_ns": sent + 6 * MS, "outcome": CallOutcome.UNKNOWN}
            writer.record(event(Kind.ACK, **here, **of_subscription | acked))
            passed: dict[str, Any] = {"cluster": "b", "ledger": 2, "entry": min(number, 8)}
            writer.record(event(Kind.CURSOR, **of_subscription | passed))
        begin: dict[str, Any] = {"subscription": "s", "ledger": -1, "entry": -1}
        writer.record(event(Kind.BEGIN, cluster="a", replicated=True, **begin))
        fault: dict[str, Any] = {"fault": KILL, "invoked_ns": 10**9, "completed_ns": 3 * 10**9}
        begun = fault | {"completed_ns": fault["invoked_ns"], "outcome": CallOutcome.UNKNOWN}
        writer.record(event(Kind.FAULT, **begun, topic=None, cluster="a"))
        writer.record(event(Kind.FAULT, **fault, topic=None, cluster="a"))
        writer.record(event(Kind.LOG_END, cluster="a", ledger=1, entry=9, invoked_ns=late, completed_ns=late))
    found = verify(SparkEngine(spark), [str(folder)], VerificationSetting())
    counted = counts_of(folder)
    assert (found.events, counted.faults) == (counted.events, {KILL: 1}), "a soak prints these"
    about = about_runs(found.files, None)
    return summarise(spark, found.files, about, found.runs, found.by_fault)


def test_rules_rates_latencies_and_faults_are_reported_and_written(spark: SparkSession, tmp_path: Path) -> None:
    summary = summary_of(spark, tmp_path / "history")
    by_rule = {row["rule"]: row for row in summary.rules}
    assert [by_rule["DEDUP-15"][name] for name in ("release", "judged", "broken")] == ["4.0.8", 10, 1]
    lost, delivered_all_the_same = "DEDUP-15", "DEDUP-16"
    assert summary.anomalies == [
        {"run": "r", "rule": rule, "fault": KILL, "times": 1} for rule in (lost, delivered_all_the_same)
    ]
    took = {(row["cluster"], row["what"]): row for row in summary.latencies}
    assert {key: (row["number"], round(row["p50_ms"]), round(row["longest_ms"])) for key, row in took.items()} == {
        ("a", "send"): (10, 2, 2),
        ("a", "dispatch"): (10, 5, 5),
        ("b", "replication"): (10, 40, 40),
        ("b", "position"): (8, 70, 70),
    }
    numbers = {"send": 10, "dispatch": 10, "replication": 10, "position": 8}
    assert {row["what"]: row["number"] for row in summary.spread} == numbers
    assert sum(row["events"] for row in summary.rates if row["kind"] == "send") == 10
    (fault,) = summary.faults
    assert (fault["fault"], fault["to_s"] - fault["from_s"]) == (KILL, 2.0)
    write(spark, summary, str(tmp_path / "tables"))
    tables = {name: spark.read.parquet(str(tmp_path / "tables" / name)).count() for name in summary.tables()}
    assert tables == {name: len(rows) for name, rows in summary.tables().items()}
