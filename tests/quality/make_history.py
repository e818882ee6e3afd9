"""Makes realistic histories of any size, with anomalies planted as rarely as asked: what is measured in history_scale.

A history is that of ``tests.pipeline.histories.realistic``, topic by topic, compacted, written file by file by as many
processes as there are cores; only one row group is in memory. It follows from the seed alone. Which anomalies stand
where is written beside it (``planted.json``), so that one can see whether each was found.

    python -m tests.quality.make_history FOLDER --millions 100 [--anomaly-every 100] [--seed 1] [--cores 2]
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import msgspec
import numpy as np
import pyarrow as pa

from conformance.history.compaction import EVENTS_OF_A_FILE
from conformance.history.parquet import bucket_of, compacted_name, in_order, table_of, write_tables
from tests.pipeline.histories import realistic
from tests.pipeline.histories.anomalies import PLANTS

ENTRIES_OF_A_TOPIC = 20_000
EVENTS_OF_AN_ENTRY = 5.0575
"""How many events ``realistic`` makes of an entry."""

BUCKETS = 8
TOPICS_OF_A_ROW_GROUP = 5
PLANTED = "planted.json"


class Planted(msgspec.Struct, frozen=True):
    """One anomaly: the invariant that it breaks, in which of the ways of ``PLANTS``, and the number of its topic."""

    invariant: str
    way: int
    topic: int

    @property
    def topic_name(self) -> str:
        """The name of its topic."""
        return realistic.name_of(self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to make; a topic's events follow from the seed and its number."""

    seed: int
    entries: int
    planted: Mapping[int, Planted]
    """By the topic's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: Path
    topics: Sequence[int]


def make(
    folder: Path,
    *,
    millions: float,
    anomaly_every_millions: float | None = None,
    seed: int = 0,
    cores: int = 1,
    entries: int = ENTRIES_OF_A_TOPIC,
) -> int:
    """Make a history of about so many million events; returns how many it has."""
    topics = max(1, round(millions * 1e6 / (entries * EVENTS_OF_AN_ENTRY)))
    planted = planned(topics, round(millions / anomaly_every_millions) if anomaly_every_millions else 0, seed)
    asked = Asked(seed=seed, entries=entries, planted={one.topic: one for one in planted})
    files = list(_files(folder, topics, max(1, int(EVENTS_OF_A_FILE / (entries * EVENTS_OF_AN_ENTRY)))))
    with ProcessPoolExecutor(cores) as workers:
        events = sum(workers.map(partial(_write, asked), files))
    (folder / PLANTED).write_bytes(msgspec.json.encode(planted))
    return events


def planned(topics: int, anomalies: int, seed: int) -> list[Planted]:
    """Which anomalies stand in which topics: of every kind in turn, in topics anywhere."""
    random = np.random.default_rng((seed, topics, anomalies))
    chosen = random.choice(topics, min(anomalies, topics), replace=False).tolist()
    kinds = random.permutation(sorted(PLANTS)).tolist()
    ways = random.integers(0, 10**6, len(chosen)).tolist()
    return [
        Planted(invariant=name, way=way % len(PLANTS[name]), topic=topic)
        for name, way, topic in zip(itertools.cycle(kinds), ways, chosen, strict=False)
    ]


def topic_of(number: int, asked: Asked) -> pa.Table:
    """The events of one topic, with what is planted in it."""
    sound = realistic.topic_table(number, entries=asked.entries, seed=asked.seed)
    one = asked.planted.get(number)
    if one is None:
        return sound
    spoiled = PLANTS[one.invariant][one.way](realistic.as_events(sound), asked.entries // 2)
    return in_order(table_of(spoiled)).cast(realistic.ENCODED)


def _files(folder: Path, topics: int, topics_of_a_file: int) -> Iterator[_File]:
    """The files of a compacted history, with the topics of each."""
    buckets: dict[str, list[int]] = {}
    for number in range(topics):
        buckets.setdefault(bucket_of(realistic.name_of(number), BUCKETS), []).append(number)
    for bucket, numbers in buckets.items():
        starts = range(0, len(numbers), topics_of_a_file)
        for index, start in enumerate(starts):
            path = folder / bucket / compacted_name("made", index + 1, len(starts))
            yield _File(path=path, topics=numbers[start : start + topics_of_a_file])


def _write(asked: Asked, file: _File) -> int:
    written = 0

    def row_groups() -> Iterator[pa.Table]:
        nonlocal written
        for start in range(0, len(file.topics), TOPICS_OF_A_ROW_GROUP):
            numbers = file.topics[start : start + TOPICS_OF_A_ROW_GROUP]
            table = pa.concat_tables([topic_of(number, asked) for number in numbers])
            written += table.num_rows
            yield table.unify_dictionaries().combine_chunks()

    write_tables(row_groups(), file.path)
    return written


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--millions", type=float, default=10.0, show_default=True, help="Of events, about.")
@click.option("--anomaly-every", type=float, help="One anomaly in so many million events.  [default: none]")
@click.option("--seed", default=0, show_default=True)
@click.option("--cores", default=2, show_default=True)
def main(folder: Path, millions: float, anomaly_every: float | None, seed: int, cores: int) -> None:
    """Make a history, and say what is in it."""
    events = make(folder, millions=millions, anomaly_every_millions=anomaly_every, seed=seed, cores=cores)
    planted = json.loads((folder / PLANTED).read_bytes())
    size_bytes = sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    click.echo(f"{events} events, {size_bytes / events:.1f} bytes each, {len(planted)} anomalies in {folder}")


if __name__ == "__main__":
    main()
