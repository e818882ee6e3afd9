"""Carries invariants over a DataFrame of events in order: one pass, topic by topic, no shuffle.

The DataFrame must come in order (``reading`` sees to that): all rows of one run, topic and cluster behind one another
in one partition, sorted as the files are. What comes out is small: an account for each invariant and partition, with a
few cases. :func:`evidence` has the cases one a row, with the events that show each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.history.parquet import SCHEMA
from conformance.pipeline.invariants import BY_NAME, INVARIANTS, Invariant
from conformance.pipeline.topic import Found, Setting, Topic, found, topics

NEEDED = [name for name in SCHEMA.names if name not in {"lane", "highest_sequence_id", "redeliveries", "size_bytes"}]
"""The columns that invariants look at, or that help to understand a case; the others are not read at all."""

SHOWN_AT_MOST = 20
"""How many cases of one invariant a partition shows; all are counted."""

EVENTS = "events"
"""The account that counts the events read; it is broken by those that cannot be judged."""

_EVENT = pa.struct([SCHEMA.field(name).with_nullable(True) for name in NEEDED])
_CASE = pa.struct(
    [
        ("run", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("because", pa.string()),
        ("events", pa.list_(_EVENT)),
    ]
)
ACCOUNT = pa.schema(
    [
        ("rule", pa.string()),
        ("invariant", pa.string()),
        ("judged", pa.int64()),
        ("broken", pa.int64()),
        ("cases", pa.list_(_CASE)),
    ]
)
"""One row for each invariant and partition: how often it was put to the test, how often it broke, and cases."""


def accounts(events: DataFrame, setting: Setting, invariants: Sequence[Invariant] = INVARIANTS) -> DataFrame:
    """Judge all events by all invariants: :data:`ACCOUNT` rows, and one on the events themselves, per partition."""
    names = [invariant.name for invariant in invariants]

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield judge_batches(batches, setting, [BY_NAME[name] for name in names])

    return events.select(*NEEDED).mapInArrow(judge, from_arrow_schema(ACCOUNT))


def evidence(events: DataFrame, setting: Setting, invariant: Invariant) -> DataFrame:
    """The cases in which one invariant did not hold: rule, invariant, run, cluster, topic, because, events."""
    found = accounts(events, setting, [invariant]).where(F.col("invariant") == invariant.name)
    return found.select("rule", "invariant", F.explode("cases").alias("case")).select("rule", "invariant", "case.*")


def judge_batches(
    batches: Iterable[pa.RecordBatch], setting: Setting, invariants: Sequence[Invariant]
) -> pa.RecordBatch:
    """Judge one partition, without Spark: rows in order, in batches of any size, of the columns :data:`NEEDED`."""
    kept = {invariant.name: _Account(invariant.rule, invariant.name) for invariant in invariants}
    events = _Account("", EVENTS)
    for topic in topics(batches, setting):
        events.take(topic, soundness(topic))
        for invariant in invariants:
            kept[invariant.name].take(topic, invariant.decide(topic))
    rows = [account.row() for account in (events, *kept.values())]
    return pa.RecordBatch.from_pylist(rows, schema=ACCOUNT)


def soundness(topic: Topic) -> Found:
    """Whether the events can be judged: their kinds and outcomes are known, and none ends before it begins."""
    unknown = (topic.kinds < 0) | (topic.outcomes < 0)
    backwards = topic.completed < topic.invoked
    strange = "an event is of a kind or outcome that this suite does not know"
    return found(len(topic), np.flatnonzero(unknown), strange, lambda row: (row,)) + found(
        0, np.flatnonzero(backwards & ~unknown), "an event ends before it begins", lambda row: (row,)
    )


class _Account:
    """What one invariant said of the topics of a partition."""

    def __init__(self, rule: str, name: str) -> None:
        self._rule, self._name = rule, name
        self._judged = self._broken = 0
        self._cases: list[dict[str, Any]] = []

    def take(self, topic: Topic, found: Found) -> None:
        self._judged += found.judged
        self._broken += found.broken
        run, name, cluster = topic.identity
        for case in found.cases[: SHOWN_AT_MOST - len(self._cases)]:
            events = topic.table.take(list(case.rows)).to_pylist()
            told = {"run": run, "cluster": cluster, "topic": name, "because": case.because, "events": events}
            self._cases.append(told)

    def row(self) -> dict[str, Any]:
        told = {"rule": self._rule, "invariant": self._name, "judged": self._judged, "broken": self._broken}
        return {**told, "cases": self._cases}
