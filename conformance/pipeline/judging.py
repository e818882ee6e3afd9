"""Carries invariants over events in order: one pass, topic by topic, no shuffle.

:func:`accounts_of` judges files. What was compacted is opened where it is judged (``opening``), the rest is sorted by
Spark. :func:`accounts` judges a DataFrame of events; it must come in order: all rows of one run, topic and cluster
behind one another in one partition, sorted as the files are. What comes out is small: an account for each invariant and
partition, with a few cases. :func:`evidence` has the cases one a row, with the events that show each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.history.parquet import SCHEMA
from conformance.history.recorded import Kind
from conformance.pipeline.clusters import Replicated, with_clusters
from conformance.pipeline.explaining import deviation_of, explanations_of
from conformance.pipeline.invariants import BY_NAME, INVARIANTS, AnyInvariant
from conformance.pipeline.opening import NOT_ALL_ROWS, Damaged, each_a_row, opened
from conformance.pipeline.reading import Files, events_of
from conformance.pipeline.topic import BACKWARDS, UNKNOWN_WORD, Case, Found, Setting, Topic, found, topics

NEEDED = [name for name in SCHEMA.names if name not in {"lane", "highest_sequence_id", "redeliveries"}]
"""The columns that invariants look at, or that help to understand a case; the others are not read at all."""

READINGS = frozenset({Kind.LOG, Kind.LOG_END, Kind.CURSOR, Kind.PASSED_ON, Kind.DRAINED})
"""What tells of a state, which may have been so for long."""

NO_FAULT = "none"

SHOWN_AT_MOST = 20
"""How many cases of one invariant a partition shows, and of each known deviation; all are counted."""

EVENTS = "events"
"""The account that counts the events read; it is broken by those that cannot be judged."""

DAMAGED = "damaged"
"""The account that tells of a file that could not be read whole; its one case has the file's address as its topic."""

_EVENT = pa.struct([SCHEMA.field(name).with_nullable(True) for name in NEEDED])
_CASE = pa.struct(
    [
        ("run", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("because", pa.string()),
        ("deviation", pa.string()),
        ("events", pa.list_(_EVENT)),
    ]
)
ACCOUNT = pa.schema(
    [
        ("run", pa.string()),
        ("rule", pa.string()),
        ("invariant", pa.string()),
        ("judged", pa.int64()),
        ("broken", pa.int64()),
        ("explained", pa.list_(pa.struct([("deviation", pa.string()), ("times", pa.int64())]))),
        ("by_fault", pa.list_(pa.struct([("fault", pa.string()), ("times", pa.int64())]))),
        ("cases", pa.list_(_CASE)),
    ]
)
"""One row for each run, invariant and partition: how often it was put to the test and how often it broke, how many of
these are explained by which known deviation, which fault came last before them, and cases."""


def accounts(events: DataFrame, setting: Setting, invariants: Sequence[AnyInvariant] = INVARIANTS) -> DataFrame:
    """Judge all events by all invariants: :data:`ACCOUNT` rows, and one on the events themselves, per partition."""
    names = [invariant.name for invariant in invariants]

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield judge_batches(batches, setting, [BY_NAME[name] for name in names])

    return events.select(*NEEDED).mapInArrow(judge, from_arrow_schema(ACCOUNT))


def accounts_of(
    spark: SparkSession, files: Files, setting: Setting, invariants: Sequence[AnyInvariant] = INVARIANTS
) -> DataFrame:
    """Judge all events of these files (there is at least one): as :func:`accounts`, and a row for each damaged file."""
    names = [invariant.name for invariant in invariants]

    def judge(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in opened(rows):
            try:
                yield judge_batches(file.batches(NEEDED), setting, [BY_NAME[name] for name in names])
            except Damaged:
                yield _damaged(file.path)

    parts = []
    if files.in_order:
        parts.append(each_a_row(spark, files.in_order).mapInArrow(judge, from_arrow_schema(ACCOUNT)))
    if files.loose:
        loose = Files(in_order=(), loose=files.loose, problems=())
        parts.append(accounts(events_of(spark, loose), setting, invariants))
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def _damaged(path: str) -> pa.RecordBatch:
    case: dict[str, Any] = dict.fromkeys(_CASE.names, "") | {"topic": path, "deviation": None, "events": []}
    case["because"] = NOT_ALL_ROWS
    row: dict[str, Any] = {"run": "", "rule": "", "invariant": DAMAGED, "judged": 0, "broken": 1, "cases": [case]}
    row |= {"explained": [], "by_fault": []}
    return pa.RecordBatch.from_pylist([row], schema=ACCOUNT)


def evidence(events: DataFrame, setting: Setting, invariant: AnyInvariant) -> DataFrame:
    """The cases in which one invariant did not hold: rule, invariant, run, cluster, topic, because, events."""
    found = accounts(events, setting, [invariant]).where(F.col("invariant") == invariant.name)
    return found.select("rule", "invariant", F.explode("cases").alias("case")).select("rule", "invariant", "case.*")


def judge_batches(
    batches: Iterable[pa.RecordBatch], setting: Setting, invariants: Sequence[AnyInvariant]
) -> pa.RecordBatch:
    """Judge one partition, without Spark: rows in order, in batches of any size, of the columns :data:`NEEDED`."""
    kept: dict[tuple[str, str], _Account] = {}
    for topic in with_clusters(topics(batches, setting)):
        run, _, _ = topic.identity
        if not isinstance(topic, Replicated):
            kept.setdefault((run, EVENTS), _Account(run, "", EVENTS)).take(topic, soundness(topic))
        for one in invariants:
            kept.setdefault((run, one.name), _Account(run, one.rule, one.name)).take(topic, one.judge(topic))
    return pa.RecordBatch.from_pylist([account.row() for account in kept.values()], schema=ACCOUNT)


def soundness(topic: Topic) -> Found:
    """Whether the events can be judged: their kinds and outcomes are known, and none ends before it begins."""
    unknown = (topic.kinds < 0) | (topic.outcomes < 0)
    backwards = topic.completed < topic.invoked
    return found(len(topic), np.flatnonzero(unknown), UNKNOWN_WORD, lambda row: (row,)) + found(
        0, np.flatnonzero(backwards & ~unknown), BACKWARDS, lambda row: (row,)
    )


class _Account:
    """What one invariant said of a run's topics in a partition."""

    def __init__(self, run: str, rule: str, name: str) -> None:
        self._run, self._rule, self._name = run, rule, name
        self._judged = self._broken = 0
        self._explained: Counter[str] = Counter()
        self._by_fault: Counter[str] = Counter()
        self._cases: dict[str | None, list[dict[str, Any]]] = defaultdict(list)

    def take(self, topic: Topic, found: Found) -> None:
        self._judged += found.judged
        self._broken += found.broken
        explanations = explanations_of(self._name, topic.known)
        for case in found.cases():
            self._by_fault[last_fault(topic, case) or NO_FAULT] += 1
            deviation = deviation_of(topic, case, explanations)
            if deviation is not None:
                self._explained[deviation] += 1
            if len(self._cases[deviation]) < SHOWN_AT_MOST:
                self._cases[deviation].append(_shown(topic, case, deviation))

    def row(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self._run, "rule": self._rule, "invariant": self._name}
        told |= {"judged": self._judged, "broken": self._broken}
        told["explained"] = [{"deviation": name, "times": times} for name, times in self._explained.items()]
        told["by_fault"] = [{"fault": name, "times": times} for name, times in self._by_fault.items()]
        return {**told, "cases": [case for cases in self._cases.values() for case in cases]}


def last_fault(topic: Topic, case: Case) -> str | None:
    """The name of the fault that began last before a case was complete; None without one.

    What only a reading of the log or of a cursor shows is dated by what else shows it.
    """
    rows = [row for row in case.rows if topic.kind(row) not in READINGS] or list(case.rows)
    until_ns = max(int(topic.completed[row]) for row in rows)
    before = [(invoked_ns, name) for name, invoked_ns, _ in topic.faults if invoked_ns <= until_ns]
    return max(before)[1] if before else None


def _shown(topic: Topic, case: Case, deviation: str | None) -> dict[str, Any]:
    run, name, cluster = topic.identity
    told = {"run": run, "cluster": cluster, "topic": name, "because": case.because, "deviation": deviation}
    return {**told, "events": topic.table.take(list(case.rows)).to_pylist()}
