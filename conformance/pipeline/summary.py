"""Summaries of runs as small tables: rates, latencies, faults, and rules by run.

Each table is one function over a DataFrame of events in any order. It judges nothing: the verdicts have the broken
rules. Times are seconds since the first event of a run, latencies milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.window import Window

from conformance.harness_error import HarnessError
from conformance.history.about import ByRun
from conformance.history.counts import FAULT
from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.files.history_files import Files
from conformance.pipeline.files.spark_rows import rows_of
from conformance.pipeline.spark_failures import failure
from conformance.pipeline.verdict import Anomalies, RunCount

INTERVALS = 120
"""The number of intervals of a run; none is shorter than a second."""

BINS_OF_AN_OCTAVE = 4
"""The resolution of latencies: a bin's upper bound is 2 ** (1 / 4) times its lower."""

FAULTS_AT_MOST = 10_000

SHARES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

RATED = ("ack", "ack-cumulative", "dispatch", "nack", "send")
"""The kinds of events that have rates."""

MESSAGE = ("run", "cluster", "topic", "ledger", "entry", "batch_index")
ORIGIN = ("run", "topic", "producer", "sequence_id")
"""What identifies a message within a cluster, and across clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The tables, a list of rows each; the functions below name their fields."""

    rules: list[dict[str, Any]]
    anomalies: list[dict[str, Any]]
    rates: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    spread: list[dict[str, Any]]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: getattr(self, name) for name in self.__slots__}


def summarise(
    spark: SparkSession, files: Files, about: ByRun, counts: Sequence[RunCount], anomalies: Sequence[Anomalies]
) -> Summary:
    """All tables of these files, without damaged parts.

    Raises:
        HarnessError: Spark fails.
    """
    try:
        events = _since_begin(rows_of(spark, (*files.in_order, *files.loose), is_lenient=True))
        took = latencies(events).cache()
        return Summary(
            rules=rules(counts, about),
            anomalies=[asdict(one) for one in anomalies],
            rates=_rows(rates(events)),
            faults=_rows(faults(events)),
            latencies=_rows(percentiles(took)),
            spread=_rows(spread(took)),
        )
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise HarnessError(failure(spark, error)) from error


def write(spark: SparkSession, summary: Summary, folder: str) -> None:
    """Write each table as Parquet into a folder of its own in ``folder``, on any file system; an empty one is left out.

    Raises:
        HarnessError: it cannot be written.
    """
    try:
        for name, rows in summary.tables().items():
            if rows:
                table = spark.createDataFrame(_typed(rows))
                table.coalesce(1).write.mode("overwrite").parquet(f"{folder.rstrip('/')}/{name}")
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise HarnessError(
            f"the summary cannot be written to {folder}: {str(error).strip().splitlines()[0]}"
        ) from error


def _typed(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows with a type for each column, also for one with nulls only, such as a release."""
    table = pa.Table.from_pylist(rows)
    types = {True: pa.float64(), False: pa.string()}
    fields = [
        field.with_type(types[field.name.endswith("_s")]) if pa.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def rules(counts: Iterable[RunCount], about: ByRun) -> list[dict[str, Any]]:
    """Rule by run: run, release (null if not recorded), rule, judged, broken, explained."""
    releases = {run: ", ".join(sorted({one.release for one in recorded})) or None for run, recorded in about.items()}
    return [{"release": releases.get(count.run), **asdict(count)} for count in counts]


def rates(events: DataFrame) -> DataFrame:
    """How many events of a kind an interval has: run, cluster, kind, from_s, lasts_s, events."""
    rated = events.where(F.col("kind").isin(*RATED))
    number = F.floor(F.col("ended_s") / F.col("interval_s"))
    grouped = rated.groupBy("run", "cluster", "kind", "interval_s", number.alias("number")).agg(
        F.count("*").alias("events")
    )
    from_s = F.col("number") * F.col("interval_s")
    lasts_s = F.col("interval_s").alias("lasts_s")
    table = grouped.select("run", "cluster", "kind", from_s.alias("from_s"), lasts_s, "events")
    return table.orderBy("run", "cluster", "kind", "from_s")


def faults(events: DataFrame) -> DataFrame:
    """The faults: run, cluster, fault, from_s, to_s; the first ten thousand."""
    injected = events.where(F.col("kind") == str(Kind.FAULT))
    # The beginning of a fault and its end may each be an event.
    each = injected.groupBy(*FAULT).agg(F.min("began_s").alias("from_s"), F.max("ended_s").alias("to_s"))
    return each.select("run", "cluster", "fault", "from_s", "to_s").orderBy("run", "from_s").limit(FAULTS_AT_MOST)


def latencies(events: DataFrame) -> DataFrame:
    """Latencies: run, cluster, what, ms.

    ``send`` and ``ack``: until the confirmation. ``dispatch``: from the send of a message to its first dispatch to a
    subscription, with its time in the backlog. ``replication``: the same in another cluster. ``position``: from an
    acknowledgment on a replicated subscription until the mark-delete position of another cluster is read after it.
    """
    ok = events.where(F.col("outcome") == str(CallOutcome.OK))
    sends = ok.where((F.col("kind") == str(Kind.SEND)) & F.col("began_s").isNotNull())
    acks = ok.where(F.col("kind").isin(str(Kind.ACK), str(Kind.ACK_CUMULATIVE)) & F.col("began_s").isNotNull())
    given = events.where(F.col("kind") == str(Kind.DISPATCH))
    given = given.withColumn("given_s", F.coalesce("began_s", "ended_s"))
    lasted = F.col("ended_s") - F.col("began_s")
    waited = F.col("given_s") - F.col("began_s")
    here = given.groupBy(*MESSAGE, "subscription").agg(F.min("given_s").alias("given_s"))
    there = (
        _identified(events, given)
        .groupBy(*ORIGIN, "subscription", F.col("cluster").alias("at"))
        .agg(F.min("given_s").alias("given_s"))
    )
    placed = sends.where(F.col("ledger").isNotNull()).join(here, [*MESSAGE])
    abroad = sends.join(there, [*ORIGIN]).where(F.col("at") != F.col("cluster")).drop("cluster")
    return (
        _took(sends, "send", lasted)
        .unionByName(_took(acks, "ack", lasted))
        .unionByName(_took(placed, "dispatch", waited))
        .unionByName(_took(abroad.withColumnRenamed("at", "cluster"), "replication", waited))
        .unionByName(_took(_followed(events), "position", F.col("seen_s") - F.col("acked_s")))
        .where(F.col("ms") >= 0)
    )


def _identified(events: DataFrame, given: DataFrame) -> DataFrame:
    """Dispatches with producer and sequence id: their own, or, of replicated messages, those of the log there."""
    identity = ("producer", "sequence_id")
    logs = events.where((F.col("kind") == str(Kind.LOG)) & F.col("replicated_from").isNotNull())
    named = given.where(F.col("sequence_id").isNotNull())
    unnamed = given.where(F.col("sequence_id").isNull()).drop(*identity)
    logged = logs.select(*MESSAGE, *identity).dropDuplicates([*MESSAGE])
    return named.unionByName(unnamed.join(logged, [*MESSAGE]))


def _followed(events: DataFrame) -> DataFrame:
    """Acknowledged messages of replicated subscriptions, in each other cluster: run, cluster, acked_s, seen_s."""
    begun = events.where(F.col("kind").isin(str(Kind.BEGIN), str(Kind.SUBSCRIBE)) & F.col("replicated"))
    subscriptions = F.broadcast(begun.select("run", "topic", "subscription").distinct())
    own = events.drop("subscription").where(F.col("kind") == str(Kind.LOG)).join(subscriptions, ["run", "topic"])
    logs = own.withColumn("origin", F.coalesce("replicated_from", "cluster"))
    read = events.where((F.col("kind") == str(Kind.CURSOR)) & (F.col("outcome") == str(CallOutcome.OK)))
    read = read.join(subscriptions, ["run", "topic", "subscription"]).withColumn("seen_s", F.col("ended_s"))
    further = Window.partitionBy("run", "topic", "cluster", "subscription").orderBy(
        F.desc("ledger"), F.desc("entry"), F.col("seen_s").isNull()
    )
    passed = logs.unionByName(read, allowMissingColumns=True).withColumn("seen_s", F.min("seen_s").over(further))
    message = ["run", "topic", "subscription", "origin", "producer", "sequence_id", "batch_index"]
    seen = passed.where(F.col("kind") == str(Kind.LOG)).select(*message, "cluster", "seen_s")
    acks = events.where(F.col("kind").isin(str(Kind.ACK), str(Kind.ACK_CUMULATIVE)) & F.col("began_s").isNotNull())
    acks = acks.join(subscriptions, ["run", "topic", "subscription"]).select(
        *MESSAGE, "subscription", F.col("began_s").alias("acked_s")
    )
    by_message = logs.join(acks, [*MESSAGE, "subscription"]).groupBy(*message, F.col("cluster").alias("at"))
    acked = by_message.agg(F.min("acked_s").alias("acked_s"))
    return seen.join(acked, message).where((F.col("at") != F.col("cluster")) & F.col("seen_s").isNotNull())


def percentiles(took: DataFrame) -> DataFrame:
    """Latencies in percentiles: run, cluster, what, number, p50_ms, p90_ms, p99_ms, p999_ms, longest_ms."""
    columns = [F.percentile_approx("ms", share).alias(name) for name, share in SHARES.items()]
    table = took.groupBy("run", "cluster", "what").agg(
        F.count("*").alias("number"), *columns, F.max("ms").alias("longest_ms")
    )
    return table.orderBy("run", "cluster", "what")


def spread(took: DataFrame) -> DataFrame:
    """Latencies as a histogram: run, what, up_to_ms, number."""
    octaves = F.ceil(F.log2(F.greatest(F.col("ms"), F.lit(0.001))) * BINS_OF_AN_OCTAVE) / BINS_OF_AN_OCTAVE
    up_to = F.pow(F.lit(2.0), octaves).alias("up_to_ms")
    grouped = took.groupBy("run", "what", up_to).agg(F.count("*").alias("number"))
    return grouped.orderBy("run", "what", "up_to_ms")


def _since_begin(events: DataFrame) -> DataFrame:
    """The events with their times in seconds since their run began, and the length of its intervals."""
    spans = events.groupBy("run").agg(
        F.min(F.coalesce("invoked_ns", "completed_ns")).alias("first_ns"), F.max("completed_ns").alias("last_ns")
    )
    length = F.ceil((F.col("last_ns") - F.col("first_ns")) / 1e9 / INTERVALS)
    spans = spans.withColumn("interval_s", F.greatest(F.lit(1.0), length.cast("double")))
    timed = events.join(F.broadcast(spans), "run")
    began = (F.col("invoked_ns") - F.col("first_ns")) / 1e9
    return timed.withColumn("began_s", began).withColumn("ended_s", (F.col("completed_ns") - F.col("first_ns")) / 1e9)


def _took(events: DataFrame, what: str, seconds: Column) -> DataFrame:
    ms = F.round(seconds * 1e3, 6).alias("ms")  # to the nanosecond, as it was recorded
    return events.select("run", "cluster", F.lit(what).alias("what"), ms)


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]
