"""Applies invariants on Spark, in the workers.

:func:`results_of` judges files. Workers open compacted files themselves (``compacted_files``); Spark sorts the others.
:func:`results` judges a DataFrame of events in order, and :func:`evidence` has one row for each case, with its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.pipeline.files.compacted_files import opened
from conformance.pipeline.files.history_files import Files
from conformance.pipeline.files.spark_rows import each_a_row, events_of
from conformance.pipeline.invariants.catalogue import BY_NAME, INVARIANTS, AnyInvariant
from conformance.pipeline.results import NEEDED, RESULT, judge_batches, judge_file
from conformance.pipeline.topic import VerificationSetting


def results(
    events: DataFrame, setting: VerificationSetting, invariants: Sequence[AnyInvariant] = INVARIANTS
) -> DataFrame:
    """Judge all events by all invariants: rows of ``RESULT``, and one on the events themselves, per partition."""
    names = [invariant.name for invariant in invariants]

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield judge_batches(batches, setting, [BY_NAME[name] for name in names])

    return events.select(*NEEDED).mapInArrow(judge, from_arrow_schema(RESULT))


def results_of(
    spark: SparkSession, files: Files, setting: VerificationSetting, invariants: Sequence[AnyInvariant] = INVARIANTS
) -> DataFrame:
    """Judge all events of one or more files: as :func:`results`, and a row for each damaged file."""
    names = [invariant.name for invariant in invariants]

    def judge(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in opened(rows):
            yield judge_file(file, setting, [BY_NAME[name] for name in names])

    parts = []
    if files.in_order:
        parts.append(each_a_row(spark, files.in_order).mapInArrow(judge, from_arrow_schema(RESULT)))
    if files.loose:
        loose = Files(in_order=(), loose=files.loose, problems=())
        parts.append(results(events_of(spark, loose), setting, invariants))
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def evidence(events: DataFrame, setting: VerificationSetting, invariant: AnyInvariant) -> DataFrame:
    """The cases in which one invariant did not hold: rule, invariant, run, cluster, topic, because, events."""
    found = results(events, setting, [invariant]).where(F.col("invariant") == invariant.name)
    return found.select("rule", "invariant", F.explode("cases").alias("case")).select("rule", "invariant", "case.*")
