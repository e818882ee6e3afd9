"""Carries invariants over events in order: one pass, topic by topic, no shuffle.

:func:`accounts_of` judges files. What was compacted is opened where it is judged (``opening``), the rest is sorted by
Spark. :func:`accounts` judges a DataFrame of events; it must come in order: all rows of one run, topic and cluster
behind one another in one partition, sorted as the files are. What comes out is small: an account for each invariant and
partition, with a few cases. :func:`evidence` has the cases one a row, with the events that show each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.history.parquet import SCHEMA
from conformance.history.recorded import Kind
from conformance.pipeline.explaining import deviation_of, explanations_of
from conformance.pipeline.files.opening import NOT_ALL_ROWS, Damaged, each_a_row, opened
from conformance.pipeline.files.reading import Files, events_of
from conformance.pipeline.invariants.catalogue import BY_NAME, INVARIANTS, AnyInvariant
from conformance.pipeline.invariants.clusters import Replicated, with_clusters
from conformance.pipeline.memory import ran_out_in_worker
from conformance.pipeline.samples import Sample
from conformance.pipeline.topic import (
    BACKWARDS,
    UNKNOWN_WORD,
    Case,
    Found,
    OutOfMemory,
    Setting,
    Topic,
    found,
    topics,
)

NEEDED = [name for name in SCHEMA.names if name not in {"lane", "highest_sequence_id", "redeliveries"}]
"""The columns that invariants look at, or that help to understand a case; the others are not read at all."""

READINGS = frozenset({Kind.LOG, Kind.LOG_END, Kind.CURSOR, Kind.PASSED_ON, Kind.DRAINED})
"""What tells of a state, which may have been so for long."""

NO_FAULT = "none"

SHOWN_AT_MOST = 100
"""How many cases of one invariant a partition shows, and of each known deviation; all are counted."""

UNJUDGED_AT_MOST = 3
"""How many topics are named for which a worker has not enough memory; all are counted."""

EVENTS = "events"
"""The account that counts the events read; it is broken by those that cannot be judged."""

DAMAGED = "damaged"
"""The account that tells of a file that could not be read whole; its one case has the file's address as its topic."""

MEMORY = "memory"
"""The account of topics for which there was not enough memory; why is a whole sentence there."""

TOPICS = "topics"
"""The account of a rule that counts the topics in which it broke, and those in which a known deviation explains it."""

_EVENT = pa.struct([SCHEMA.field(name).with_nullable(True) for name in NEEDED])
_CASE = pa.struct(
    [
        ("run", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("fault", pa.string()),
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
                invariants = [BY_NAME[name] for name in names]
                yield judge_batches(file.batches(NEEDED), setting, invariants, path=file.path)
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
    return pa.RecordBatch.from_pylist([_unread(DAMAGED, 1, [_untold(path, NOT_ALL_ROWS)])], schema=ACCOUNT)


def _unread(invariant: str, number: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of an account of what could not be read or judged."""
    row: dict[str, Any] = {"run": "", "rule": "", "invariant": invariant, "judged": 0, "broken": number}
    return row | {"explained": [], "by_fault": [], "cases": cases}


def _untold(topic: str, because: str) -> dict[str, Any]:
    """A case without events."""
    case: dict[str, Any] = dict.fromkeys(_CASE.names, "")
    return case | {"topic": topic, "because": because, "deviation": None, "events": []}


def evidence(events: DataFrame, setting: Setting, invariant: AnyInvariant) -> DataFrame:
    """The cases in which one invariant did not hold: rule, invariant, run, cluster, topic, because, events."""
    found = accounts(events, setting, [invariant]).where(F.col("invariant") == invariant.name)
    return found.select("rule", "invariant", F.explode("cases").alias("case")).select("rule", "invariant", "case.*")


def judge_batches(
    batches: Iterable[pa.RecordBatch], setting: Setting, invariants: Sequence[AnyInvariant], *, path: str = ""
) -> pa.RecordBatch:
    """Judge one partition, without Spark: rows in order, in batches of any size, of the columns :data:`NEEDED`.

    A topic for which there is not enough memory is told of, and the others are judged; those that follow are not if
    it could not even be read. ``path``: of the file that is judged, if it is one.
    """
    judged = _Judged(invariants)
    unjudged: list[dict[str, Any]] = []
    told = with_clusters(topics(batches, setting))
    while True:
        try:
            for topic in told:
                judged.take(topic)
            break
        except OutOfMemory as error:
            case = _untold(error.identity[1], ran_out_in_worker(error, path))
        unjudged.append(case)  # here, for until then the error holds what there was no room for
    rows = judged.rows()
    if unjudged:
        rows.append(_unread(MEMORY, len(unjudged), unjudged[:UNJUDGED_AT_MOST]))
    return pa.RecordBatch.from_pylist(rows, schema=ACCOUNT)


class _Judged:
    """The accounts of a partition."""

    def __init__(self, invariants: Sequence[AnyInvariant]) -> None:
        self._invariants = invariants
        self._kept: dict[tuple[str, str], _Account] = {}
        self._topics: dict[tuple[str, str], _Topics] = {}

    def take(self, topic: Topic) -> None:
        """Judge a topic.

        Raises:
            OutOfMemory: there is not enough memory for it.
        """
        try:
            self._take(topic)
        except MemoryError as error:
            raise OutOfMemory(topic.identity, len(topic)) from error

    def _take(self, topic: Topic) -> None:
        run, name, _ = topic.identity
        if not isinstance(topic, Replicated):
            self._kept.setdefault((run, EVENTS), _Account(run, "", EVENTS)).take(topic, soundness(topic))
        for one in self._invariants:
            account = self._kept.setdefault((run, one.name), _Account(run, one.rule, one.name))
            reasons = account.take(topic, one.judge(topic))
            self._topics.setdefault((run, one.rule), _Topics(run, one.rule)).take(name, reasons)

    def rows(self) -> list[dict[str, Any]]:
        told = [account.row() for account in self._kept.values()]
        return told + [row for one in self._topics.values() if (row := one.row())]


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
        self._cases: dict[str | None, Sample[dict[str, Any]]] = defaultdict(lambda: Sample(SHOWN_AT_MOST))

    def take(self, topic: Topic, found: Found) -> frozenset[str | None]:
        """Add what was found of a topic; returns by which deviations it broke, None: by none that is known."""
        self._judged += found.judged
        self._broken += found.broken
        explanations = explanations_of(self._name, topic.known)
        reasons: set[str | None] = set()
        for case in found.cases():
            fault = last_fault(topic, case) or NO_FAULT
            self._by_fault[fault] += 1
            deviation = deviation_of(topic, case, explanations)
            if deviation is not None:
                self._explained[deviation] += 1
            reasons.add(deviation)
            shown = partial(_shown, topic, case, fault, deviation)
            self._cases[deviation].offer((fault, *topic.identity, case.because), shown)
        return frozenset(reasons)

    def row(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self._run, "rule": self._rule, "invariant": self._name}
        told |= {"judged": self._judged, "broken": self._broken}
        told["explained"] = [{"deviation": name, "times": times} for name, times in self._explained.items()]
        told["by_fault"] = [{"fault": name, "times": times} for name, times in self._by_fault.items()]
        return {**told, "cases": [case for cases in self._cases.values() for case in cases]}


class _Topics:
    """In how many topics of a run a rule broke; a topic's clusters follow one another, and are one topic."""

    def __init__(self, run: str, rule: str) -> None:
        self._run, self._rule = run, rule
        self._number: Counter[str | None] = Counter()
        self._last: dict[str | None, str] = {}

    def take(self, topic: str, reasons: frozenset[str | None]) -> None:
        """Count a topic for each deviation by which it broke, None: for none that is known."""
        for reason in reasons:
            if self._last.get(reason) != topic:
                self._last[reason] = topic
                self._number[reason] += 1

    def row(self) -> dict[str, Any] | None:
        """The account; None where nothing broke."""
        if not self._number:
            return None
        explained = [{"deviation": name, "times": times} for name, times in self._number.items() if name is not None]
        row = _unread(TOPICS, self._number[None], [])
        return row | {"run": self._run, "rule": self._rule, "explained": explained}


def last_fault(topic: Topic, case: Case) -> str | None:
    """The name of the fault that began last before a case was complete; None without one.

    What only a reading of the log or of a cursor shows is dated by what else shows it.
    """
    rows = [row for row in case.rows if topic.kind(row) not in READINGS] or list(case.rows)
    until_ns = max(int(topic.completed[row]) for row in rows)
    before = [(invoked_ns, name) for name, invoked_ns, _ in topic.faults if invoked_ns <= until_ns]
    return max(before)[1] if before else None


def _shown(topic: Topic, case: Case, fault: str, deviation: str | None) -> dict[str, Any]:
    run, name, cluster = topic.identity
    told: dict[str, Any] = {"run": run, "cluster": cluster, "topic": name, "fault": fault}
    told |= {"because": case.because, "deviation": deviation}
    return {**told, "events": topic.table.take(list(case.rows)).to_pylist()}
