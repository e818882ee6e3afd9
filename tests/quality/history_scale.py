"""How verifying scales: all invariants over so many events, a bare scan of the same files, and DuckDB's SQL.

Realistic histories (``tests.pipeline.realistic``) are written once for each size, compacted, and measured in one run on
the same cores: what counts is the ratios. The bare scan carries the same columns to Python and only counts rows; DuckDB
is asked for the same invariants, a statement each (``history_scale.sql``). It is no test: a slow day fails nothing.

    python -m tests.quality.history_scale [--millions 1 --millions 10] [--cores 2] [--folder FOLDER]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from conformance.pipeline.judging import EVENTS, NEEDED, accounts
from conformance.pipeline.reading import Files, events_of, examine
from conformance.pipeline.session import session
from conformance.pipeline.topic import Setting
from tests.pipeline import realistic

ENTRIES_OF_A_TOPIC = 20_000
EVENTS_OF_AN_ENTRY = 5
BUCKETS = 8
STATEMENTS = Path(__file__).with_suffix(".sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds at one size; ``sums`` is what the invariants judged and found broken, in all."""

    events: int
    scan_s: float
    spark_s: float
    duckdb_s: float
    sums: tuple[int, int]


def timed(act: Callable[[], object]) -> float:
    """How long it takes, in seconds."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def scan(spark: SparkSession, files: Files) -> int:
    """Carry the same columns to Python, and count rows there."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    counted = events_of(spark, files).select(*NEEDED).mapInArrow(count, "rows long").collect()
    return sum(row["rows"] for row in counted)


def judge(spark: SparkSession, files: Files) -> tuple[int, int]:
    """All invariants; how often they were put to the test, and broken, in all."""
    rows = [row for row in accounts(events_of(spark, files), Setting()).collect() if row["invariant"] != EVENTS]
    return sum(row["judged"] for row in rows), sum(row["broken"] for row in rows)


def statements() -> dict[str, str]:
    """The SQL of each invariant (or of several at once), by what stands above it."""
    told = (statement.strip() for statement in STATEMENTS.read_text().split(";"))
    return {_names(statement): statement for statement in told if statement}


def _names(statement: str) -> str:
    return [line for line in statement.splitlines() if line.startswith("-- ")][-1].removeprefix("-- ")


def ask_duckdb(folder: Path, cores: int) -> dict[str, int]:
    """The same invariants as SQL; how often each is broken."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {cores}")
        connection.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{folder}/*/*.parquet')")
        broken = {}
        for names, statement in statements().items():
            answer = connection.execute(statement).fetchone()
            assert answer is not None
            broken[names] = int(answer[0])
        return broken


def measured(spark: SparkSession, folder: Path, millions: float, cores: int) -> Took:
    """Write a history of that size, and measure."""
    topics = max(1, round(millions * 1e6 / (ENTRIES_OF_A_TOPIC * EVENTS_OF_AN_ENTRY)))
    events = realistic.write(folder, topics=topics, entries=ENTRIES_OF_A_TOPIC, buckets=BUCKETS)
    files = examine(spark, [str(folder)])
    assert scan(spark, files) == events  # warms up Java and the disk's cache
    sums: list[tuple[int, int]] = []
    return Took(
        events=events,
        scan_s=timed(lambda: scan(spark, files)),
        spark_s=timed(lambda: sums.append(judge(spark, files))),
        duckdb_s=timed(lambda: ask_duckdb(folder, cores)),
        sums=sums[0],
    )


@click.command()
@click.option("--millions", multiple=True, type=float, default=(1.0, 10.0), show_default=True)
@click.option("--cores", default=2, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Where to.  [default: a temporary one]"
)
def main(millions: tuple[float, ...], cores: int, folder: Path | None) -> None:
    """Print a line for each size."""
    spark = session(f"local[{cores}]")
    click.echo("    events  bare scan  invariants  ratio    DuckDB   judged  broken")
    with tempfile.TemporaryDirectory() as temporary:
        for size in millions:
            took = measured(spark, (folder or Path(temporary)) / f"{size:g}", size, cores)
            ratio = took.spark_s / took.scan_s
            click.echo(
                f"{took.events:10}  {took.scan_s:7.1f} s  {took.spark_s:8.1f} s  {ratio:5.1f}  {took.duckdb_s:6.1f} s"
                f"  {took.sums[0]:7}  {took.sums[1]:6}"
            )


if __name__ == "__main__":
    main()
