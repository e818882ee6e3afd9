"""How ``verify`` scales: all invariants over many events, compared with bare scans of the same files and DuckDB's SQL.

Realistic histories (``make_history``) are generated once for each size, compacted, and measured in one run on the same
cores, because only the ratios matter. The bare scan opens the same columns in the workers, and only counts rows. The
other scans are one with a sort by topic and position, Spark's own and DuckDB's. DuckDB decides the same invariants, one
statement each (``history_scale.sql``). Each measurement has its time and its peak of memory. It is no test.

    python -m tests.quality.history_scale [--millions 1 --millions 10] [--cores 2] [--folder FOLDER] [--json FILE]

An event takes 12 bytes on disk and, to be made, 1.3 µs of a core: 1,000 million take 12 GB and, on two cores, some
11 minutes, with 0.5 GB of memory a core. DuckDB spills to disk, up to ``--duckdb-disk``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
import duckdb
import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from conformance.pipeline.files.compacted_files import opened
from conformance.pipeline.files.file_systems import HadoopStorage
from conformance.pipeline.files.history_files import Files, examine
from conformance.pipeline.files.spark_rows import each_a_row, events_of
from conformance.pipeline.results import NEEDED
from conformance.pipeline.session import session
from conformance.pipeline.spark_engine import SparkEngine
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import BrokenInvariant, Verification, verify
from tests.quality.make_history import PLANTED, Planted, make
from tests.quality.peak_memory import Peak, peak_memory

TOPIC, PLACE = "topic's code", ("ledger", "entry", "batch_index", "invoked_ns")
DRIVER_MEMORY = "4g"
DUCKDB_MEMORY = "4GB"
DUCKDB_DISK = "25GB"
STATEMENTS = Path(__file__).with_suffix(".sql")

_Result = TypeVar("_Result")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took, and the memory that it took at most."""

    seconds: float
    peak: Peak


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """What each cost at one size; ``judged`` is how often invariants were put to the test.

    What is only there to be compared with is None where that was not asked for; ``duckdb`` also where it had too little
    room on the disk.
    """

    events: int
    size_bytes: int
    cores: int
    scan: Cost
    sort: Cost | None
    spark_scan: Cost | None
    duckdb_scan: Cost
    verify: Cost
    duckdb: Cost | None
    judged: int
    planted: int
    found: int
    broken: int


def costing(act: Callable[[], _Result]) -> tuple[_Result, Cost]:
    """What it returns, and what it costs."""
    with peak_memory() as peak:
        began = time.perf_counter()
        result = act()
        seconds = time.perf_counter() - began
    return result, Cost(seconds=seconds, peak=peak())


def scan(spark: SparkSession, files: Files) -> int:
    """Open the same columns where they are judged, and count rows there."""

    def count(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = sum(batch.num_rows for file in opened(rows) for batch in file.batches(NEEDED))
        yield pa.RecordBatch.from_pydict({"rows": [number]})

    counted = each_a_row(spark, files.in_order).mapInArrow(count, "rows long").collect()
    return sum(row["rows"] for row in counted)


def scan_and_sort(spark: SparkSession, files: Files) -> None:
    """Open the same columns where they are judged, and sort each file's rows by topic and position there."""

    def sort(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in opened(rows):
            events = pa.Table.from_batches(file.batches(NEEDED)).unify_dictionaries().combine_chunks()
            topic = events.column("topic").chunk(0).indices  # a dictionary itself cannot be sorted by
            ordered = events.append_column(TOPIC, topic).sort_by([(name, "ascending") for name in (TOPIC, *PLACE)])
            yield pa.RecordBatch.from_pydict({"rows": [ordered.num_rows]})

    each_a_row(spark, files.in_order).mapInArrow(sort, "rows long").collect()


def scan_by_spark(spark: SparkSession, files: Files) -> None:
    """Spark's own scan of the same columns, which go nowhere."""
    events_of(spark, files).select(*NEEDED).write.format("noop").mode("overwrite").save()


def statements() -> dict[str, str]:
    """The SQL of each invariant (or of several at once), by what stands above it."""
    statements = (statement.strip() for statement in STATEMENTS.read_text().split(";"))
    return {_names(statement): statement for statement in statements if statement}


def _names(statement: str) -> str:
    return [line for line in statement.splitlines() if line.startswith("-- ")][-1].removeprefix("-- ")


@contextmanager
def events_in_duckdb(folder: Path, cores: int, disk: str = DUCKDB_DISK) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with a view of all events, on so many cores; ``disk``: how much it may put down."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {cores}")
        connection.execute(f"SET memory_limit = '{DUCKDB_MEMORY}'")
        connection.execute(f"SET temp_directory = '{folder}/.duckdb'")
        connection.execute(f"SET max_temp_directory_size = '{disk}'")
        connection.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{folder}/*/*.parquet')")
        yield connection


def scan_by_duckdb(folder: Path, cores: int) -> None:
    """DuckDB's own scan of the same columns, which are counted."""
    with events_in_duckdb(folder, cores) as connection:
        connection.execute(f"SELECT {', '.join(f'count({name})' for name in NEEDED)} FROM events").fetchone()


def ask_duckdb(folder: Path, cores: int, disk: str = DUCKDB_DISK) -> dict[str, int]:
    """The same invariants as SQL; how often each is broken."""
    with events_in_duckdb(folder, cores, disk) as connection:
        broken = {}
        for names, statement in statements().items():
            answer = connection.execute(statement).fetchone()
            assert answer is not None
            broken[names] = int(answer[0])
        return broken


def found_of(planted: list[Planted], verified: Verification) -> int:
    """How many of the planted anomalies stand among the cases of the invariant that each is to break."""
    cases = {
        (case.invariant, case.topic)
        for rule in verified.rules
        if isinstance(rule, BrokenInvariant)
        for case in rule.cases
    }
    return sum((one.invariant, one.topic_name) in cases for one in planted)


def measured(spark: SparkSession, folder: Path, cores: int, *, compared: bool, disk: str) -> Took:
    """Measure verifying one history, which is there; beside it scans and, if asked, what else it is compared with."""
    files = examine(HadoopStorage(spark), [str(folder)])
    assert not files.loose
    events, scanned = costing(lambda: scan(spark, files))
    sorted_ = costing(lambda: scan_and_sort(spark, files))[1] if compared else None
    scanned_by_spark = costing(lambda: scan_by_spark(spark, files))[1] if compared else None
    _, scanned_by_duckdb = costing(lambda: scan_by_duckdb(folder, cores))
    verified, verifying = costing(lambda: verify(SparkEngine(spark), [str(folder)], VerificationSetting()))
    assert verified.events == events
    planted = msgspec.json.decode((folder / PLANTED).read_bytes(), type=list[Planted])
    return Took(
        events=events,
        size_bytes=sum(file.size_bytes for file in files.in_order),
        cores=cores,
        scan=scanned,
        sort=sorted_,
        spark_scan=scanned_by_spark,
        duckdb_scan=scanned_by_duckdb,
        verify=verifying,
        duckdb=asking_duckdb(folder, cores, disk) if compared else None,
        judged=sum(getattr(rule, "exercised", 0) for rule in verified.rules),
        planted=len(planted),
        found=found_of(planted, verified),
        broken=sum(rule.times for rule in verified.rules if isinstance(rule, BrokenInvariant)),
    )


def asking_duckdb(folder: Path, cores: int, disk: str) -> Cost | None:
    """What DuckDB's SQL costs; None, and a sentence, where it has too little room."""
    try:
        return costing(lambda: ask_duckdb(folder, cores, disk))[1]
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        click.echo(f"DuckDB gave up: {str(error).splitlines()[0]}", err=True)
        return None


def line_of(took: Took) -> str:
    """The lines of the table: what each cost."""
    lines = [
        f"{took.events} events, {took.size_bytes / took.events:.1f} bytes each on disk,"
        f" {took.found} of {took.planted} anomalies found, {took.cores} cores:"
    ]
    for name, cost in costs_of(took).items():
        if cost is not None:
            java, worker, own = (
                one / 2**20 for one in (cost.peak.java_bytes, cost.peak.worker_bytes, cost.peak.own_bytes)
            )
            lines.append(
                f"  {name:24} {cost.seconds:8.1f} s {cost.seconds / took.scan.seconds:6.2f} bare scans,"
                f" {java:6.0f} MiB Java, {worker:6.0f} largest worker, {own:6.0f} own"
            )
    return "\n".join(lines)


def costs_of(took: Took) -> dict[str, Cost | None]:
    """All that was measured, by what it is called."""
    return {
        "bare scan": took.scan,
        "the same, and a sort": took.sort,
        "Spark's own scan": took.spark_scan,
        "DuckDB's own scan": took.duckdb_scan,
        "verify, all invariants": took.verify,
        "the same as SQL, DuckDB": took.duckdb,
    }


@click.command()
@click.option("--millions", multiple=True, type=float, default=(1.0, 10.0), show_default=True)
@click.option("--anomaly-every", type=float, help="One anomaly in so many million events.  [default: none]")
@click.option("--cores", default=2, show_default=True)
@click.option(
    "--compared-up-to",
    default=100.0,
    show_default=True,
    help="A sort, Spark's scan, DuckDB's SQL: up to so many millions.",
)
@click.option("--duckdb-disk", default=DUCKDB_DISK, show_default=True, help="How much DuckDB may put down.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Make histories here, or use them.")
@click.option(
    "--json", "json_", type=click.Path(path_type=Path, dir_okay=False), help="Add a line of JSON for each size."
)
def main(
    millions: tuple[float, ...],
    anomaly_every: float | None,
    cores: int,
    compared_up_to: float,
    duckdb_disk: str,
    folder: Path | None,
    json_: Path | None,
) -> None:
    """Print what each cost at each size."""
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory {DRIVER_MEMORY} pyspark-shell")
    spark = session(f"local[{cores}]")
    is_warm = False
    with tempfile.TemporaryDirectory() as temporary:
        for size in millions:
            history = (folder or Path(temporary)) / f"{size:g}"
            if not (history / PLANTED).exists():
                make(history, millions=size, anomaly_every_millions=anomaly_every, cores=cores)
            if not is_warm:
                scan(spark, examine(HadoopStorage(spark), [str(history)]))  # Java and its workers
                is_warm = True
            took = measured(spark, history, cores, compared=size <= compared_up_to, disk=duckdb_disk)
            click.echo(line_of(took))
            if json_ is not None:
                with json_.open("ab") as file:
                    file.write(msgspec.json.encode(took) + b"\n")


if __name__ == "__main__":
    main()
