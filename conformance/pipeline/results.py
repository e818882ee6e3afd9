"""Applies invariants to events in order: one pass, topic by topic, no shuffle, whatever engine brings the events.

All rows of one run, topic and cluster are contiguous in one partition, sorted as in the files. There is a small result
for each invariant and partition, with a few cases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from conformance.history.parquet import REQUIRED, SCHEMA
from conformance.pipeline.explanations import deviation_of, explanations_of
from conformance.pipeline.files.compacted_files import Damaged, OpenedFile
from conformance.pipeline.invariants.catalogue import INVARIANTS, AnyInvariant
from conformance.pipeline.invariants.clusters import Replicated, with_clusters
from conformance.pipeline.large_topics import release_pages
from conformance.pipeline.memory import OF_SPARK, Worker, ran_out_in_worker
from conformance.pipeline.samples import OF_A_PATH_AT_MOST, Sample
from conformance.pipeline.topic import (
    BACKWARDS,
    UNKNOWN_TIME,
    UNKNOWN_WORD,
    Case,
    Evidence,
    Ints,
    OutOfMemory,
    TopicEvents,
    VerificationSetting,
    found,
    topics,
)

NEEDED = [name for name in SCHEMA.names if name not in {"highest_sequence_id", "redeliveries"}]
"""The columns that invariants use, or that explain a case; the others are not read."""

NO_FAULT = "none"

SHOWN_AT_MOST = 100
"""How many cases a partition keeps of one invariant and each known deviation; it counts all."""

UNEXPLAINED_AT_MOST = SHOWN_AT_MOST
"""After so many violations of an invariant in a topic that no known deviation explains, the others there count as
unexplained, too. To find the deviation of a case may cost a pass over the whole topic."""

UNJUDGED_AT_MOST = 3
"""How many topics are named for which a worker lacks memory; it counts all."""

EVENTS = "events"
"""The result that counts the events read. Those that cannot be judged count as broken."""

DAMAGED = "damaged"
"""The result for a file that could not be read whole; its one case has the file's address as its topic."""

MEMORY = "memory"
"""The result for topics that a worker lacked memory for; its cases have a whole sentence each."""

TOPICS = "topics"
"""The result that counts the topics in which a rule broke, by known deviation."""

_EVENT = pa.struct([SCHEMA.field(name).with_nullable(True) for name in NEEDED if name != "lane"])
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
RESULT = pa.schema(
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
"""One row for each run, invariant and partition: how often it was exercised and broken, how many of these each known
deviation explains, how many each fault precedes, and cases."""


def judge_file(
    file: OpenedFile,
    setting: VerificationSetting,
    invariants: Sequence[AnyInvariant] = INVARIANTS,
    *,
    worker: Worker = OF_SPARK,
) -> pa.RecordBatch:
    """Judge a file in order: :data:`RESULT` rows, or a row that says that it is damaged."""
    try:
        return judge_batches(file.batches(NEEDED), setting, invariants, path=file.path, worker=worker)
    except Damaged as error:
        return _damaged(file.path, error.because)


def _damaged(path: str, because: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([_unread(DAMAGED, 1, [_without_events(path, because)])], schema=RESULT)


def _unread(invariant: str, number: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The result for something that could not be read or judged."""
    row: dict[str, Any] = {"run": "", "rule": "", "invariant": invariant, "judged": 0, "broken": number}
    return row | {"explained": [], "by_fault": [], "cases": cases}


def _without_events(topic: str, because: str) -> dict[str, Any]:
    """A case without events."""
    case: dict[str, Any] = dict.fromkeys(_CASE.names, "")
    return case | {"topic": topic, "because": because, "deviation": None, "events": []}


def judge_batches(
    batches: Iterable[pa.RecordBatch],
    setting: VerificationSetting,
    invariants: Sequence[AnyInvariant],
    *,
    path: str = "",
    worker: Worker = OF_SPARK,
) -> pa.RecordBatch:
    """Judge one partition, without Spark: rows in order, in batches of any size, of the columns :data:`NEEDED`.

    A topic that lacks memory gets a result of its own, and the others are judged, unless it could not even be read.
    ``path``: of the file, if a file is judged; ``worker``: what runs this.
    """
    judged = _PartitionResults(invariants)
    unjudged: list[dict[str, Any]] = []
    incomplete: list[dict[str, Any]] = []
    in_order = with_clusters(topics(_complete(batches, incomplete), setting))
    while True:
        try:
            for topic in in_order:
                judged.take(topic)
            break
        except OutOfMemory as error:
            case = _without_events(error.identity[1], ran_out_in_worker(worker, error, path))
        unjudged.append(case)  # not above: the error refers to the events, and so keeps them in memory
    rows = judged.rows()
    if incomplete:
        rows.append(_unread(EVENTS, len(incomplete), incomplete[:UNJUDGED_AT_MOST]))
    if unjudged:
        rows.append(_unread(MEMORY, len(unjudged), unjudged[:UNJUDGED_AT_MOST]))
    return pa.RecordBatch.from_pylist(rows, schema=RESULT)


def _complete(batches: Iterable[pa.RecordBatch], incomplete: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """The rows with all required values; a case for each other row."""
    for batch in batches:
        for name in REQUIRED:
            column = batch.column(name)
            if column.null_count:
                lacking = batch.filter(column.is_null()).to_pylist()
                topic = [row["topic"] or "" for row in lacking]
                cases = (_without_events(one, f"an event has no {name}") for one in topic)
                incomplete.extend(case | {"events": [row]} for case, row in zip(cases, lacking, strict=True))
                batch = batch.filter(column.is_valid())
        yield batch


class _PartitionResults:
    """The results of a partition."""

    def __init__(self, invariants: Sequence[AnyInvariant]) -> None:
        self._invariants = invariants
        self._kept: dict[tuple[str, str], _Result] = {}
        self._topics: dict[tuple[str, str], _Topics] = {}

    def take(self, topic: TopicEvents) -> None:
        """Judge a topic.

        Raises:
            OutOfMemory: there is not enough memory for it.
        """
        try:
            self._take(topic)
        except MemoryError as error:
            raise OutOfMemory(topic.identity, len(topic)) from error

    def _take(self, topic: TopicEvents) -> None:
        run, name, _ = topic.identity
        if not isinstance(topic, Replicated):
            self._kept.setdefault((run, EVENTS), _Result(run, "", EVENTS)).take(topic, soundness(topic))
        for one in self._invariants:
            result = self._kept.setdefault((run, one.name), _Result(run, one.rule, one.name))
            reasons = result.take(topic, one.judge(topic))
            release_pages()
            self._topics.setdefault((run, one.rule), _Topics(run, one.rule)).take(name, reasons)

    def rows(self) -> list[dict[str, Any]]:
        rows = [result.row() for result in self._kept.values()]
        return rows + [row for one in self._topics.values() if (row := one.row())]


def soundness(topic: TopicEvents) -> Evidence:
    """Whether the events can be judged: their kinds and outcomes are known, and none ends before it begins."""
    unknown = (topic.kinds < 0) | (topic.outcomes < 0)
    backwards = topic.completed < topic.invoked
    return found(len(topic), np.flatnonzero(unknown), UNKNOWN_WORD, lambda rows: (rows,)) + found(
        0, np.flatnonzero(backwards & ~unknown), BACKWARDS, lambda rows: (rows,)
    )


class _Result:
    """The result of one invariant for a run's topics in a partition."""

    def __init__(self, run: str, rule: str, name: str) -> None:
        self._run, self._rule, self._name = run, rule, name
        self._judged = self._broken = 0
        self._explained: Counter[str] = Counter()
        self._by_fault: Counter[str] = Counter()
        self._cases: dict[str | None, Sample[dict[str, Any]]] = defaultdict(lambda: Sample(SHOWN_AT_MOST))

    def take(self, topic: TopicEvents, found: Evidence) -> frozenset[str | None]:
        """Add the evidence on a topic; returns the deviations that explain it, None for a violation."""
        self._judged += found.judged
        self._broken += found.broken
        explanations = explanations_of(self._name, topic.known)
        reasons = Counter[str | None]()
        for breach in found.breaches:
            faults = last_faults(topic, breach.rows)
            self._by_fault.update(faults)
            offered = Counter[tuple[str, str | None]]()
            for number, fault in enumerate(faults):
                is_examined = bool(explanations) and reasons[None] < UNEXPLAINED_AT_MOST
                if not is_examined and offered[fault, None] >= OF_A_PATH_AT_MOST:
                    continue
                case = breach.case(number)
                deviation = deviation_of(topic, case, explanations) if is_examined else None
                if deviation is not None:
                    self._explained[deviation] += 1
                reasons[deviation] += 1
                offered[fault, deviation] += 1
                if offered[fault, deviation] <= OF_A_PATH_AT_MOST:
                    shown = partial(_shown, topic, case, fault, deviation)
                    self._cases[deviation].offer((fault, *topic.identity, case.because), shown)
        return frozenset(reasons)

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"run": self._run, "rule": self._rule, "invariant": self._name}
        row |= {"judged": self._judged, "broken": self._broken}
        row["explained"] = [{"deviation": name, "times": times} for name, times in self._explained.items()]
        row["by_fault"] = [{"fault": name, "times": times} for name, times in self._by_fault.items()]
        return {**row, "cases": [case for cases in self._cases.values() for case in cases]}


class _Topics:
    """The number of topics of a run in which a rule broke; the clusters of a topic count as one topic."""

    def __init__(self, run: str, rule: str) -> None:
        self._run, self._rule = run, rule
        self._number: Counter[str | None] = Counter()
        self._last: dict[str | None, str] = {}

    def take(self, topic: str, reasons: frozenset[str | None]) -> None:
        """Count a topic for each of these deviations; None is a violation."""
        for reason in reasons:
            if self._last.get(reason) != topic:
                self._last[reason] = topic
                self._number[reason] += 1

    def row(self) -> dict[str, Any] | None:
        """The result; None if nothing broke."""
        if not self._number:
            return None
        explained = [{"deviation": name, "times": times} for name, times in self._number.items() if name is not None]
        row = _unread(TOPICS, self._number[None], [])
        return row | {"run": self._run, "rule": self._rule, "explained": explained}


def last_faults(topic: TopicEvents, cases: Ints) -> list[str]:
    """The name of the last fault that began before the end of each case; :data:`NO_FAULT` without one.

    Readings of a log or a cursor do not date a case that has other events. ``cases``: a line of rows for each.
    """
    if not topic.faults:
        return [NO_FAULT] * len(cases)
    is_reading = topic.are_readings(cases)
    is_reading &= ~is_reading.all(axis=1, keepdims=True)
    until_ns = np.where(is_reading, UNKNOWN_TIME, topic.completed[cases]).max(axis=1)
    in_order = sorted((invoked_ns, name) for name, invoked_ns, _ in topic.faults)
    names = [NO_FAULT, *(name for _, name in in_order)]
    before = np.searchsorted([invoked_ns for invoked_ns, _ in in_order], until_ns, side="right")
    return [names[number] for number in before.tolist()]


def _shown(topic: TopicEvents, case: Case, fault: str, deviation: str | None) -> dict[str, Any]:
    run, name, cluster = topic.identity
    row: dict[str, Any] = {"run": run, "cluster": cluster, "topic": name, "fault": fault}
    row |= {"because": case.because, "deviation": deviation}
    return {**row, "events": [topic.event(number) for number in case.rows]}
