"""A history that is doubled, shuffled, or lacks a part is a problem of the history, never a violation of the broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conformance.history.compaction import compact
from conformance.history.parquet import REQUIRED, SCHEMA, HistoryWriter, write_file
from conformance.history.recorded import Recorded
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import BrokenInvariant, Engine, verify
from conformance.verdicts import Held
from tests.pipeline.histories import realistic

EVENTS = [one for number in range(6) for one in realistic.events(number, entries=100)]


def written(folder: Path, events: list[Recorded] = EVENTS, *, is_compacted: bool = False) -> Path:
    with HistoryWriter(folder, "w") as writer:
        for one in events:
            writer.record(one)
    if is_compacted:
        compact(folder)
    return folder


def problem(engine: Engine, *folders: Path) -> str:
    """The first problem of a history that breaks no rule, and in which none holds."""
    found = verify(engine, [str(folder) for folder in folders], VerificationSetting(on_its_way_ns=0))
    assert found.exit_status == 2
    assert not any(isinstance(verdict, Held | BrokenInvariant) for verdict in found.rules)
    return found.problems[0]


def first_of(folder: Path) -> Path:
    return min(folder.glob("*/*.parquet"))


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_file_copied_beside_itself_is_named(engine: Engine, tmp_path: Path, is_compacted: bool) -> None:
    path = first_of(written(tmp_path, is_compacted=is_compacted))
    shutil.copy(path, path.with_name("zz-copy.parquet"))
    assert problem(engine, tmp_path).endswith(f"/zz-copy.parquet is a copy of file:{path}")


def test_a_history_with_its_compacted_copy_is_named(engine: Engine, tmp_path: Path) -> None:
    written(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    compact(tmp_path / "b")
    path, compacted = first_of(tmp_path / "a"), first_of(tmp_path / "b")
    assert problem(engine, tmp_path) == f"file:{path} has events that file:{compacted} has, too"
    assert problem(engine, tmp_path / "a", tmp_path / "b").startswith(f"file:{path} has events that ")
    compact(tmp_path / "a")
    assert " is a copy of file:" in problem(engine, tmp_path)


def test_shuffled_rows_are_named(engine: Engine, tmp_path: Path) -> None:
    path = first_of(written(tmp_path, is_compacted=True))
    table = pq.read_table(path, partitioning=None)
    for order in (np.random.default_rng(1).permutation(len(table)), np.arange(len(table))[::-1]):
        write_file(table.take(order), path)
        assert problem(engine, tmp_path) == f"file:{path} is damaged: its rows are not in the order of a history"


@pytest.mark.parametrize("name", ["bucket-link", "link"])
def test_a_link_to_the_folder_is_not_followed(engine: Engine, tmp_path: Path, name: str) -> None:
    written(tmp_path / "history", is_compacted=True)
    (tmp_path / "history" / name).symlink_to(tmp_path / "history")
    (tmp_path / "by-link").symlink_to(tmp_path / "history")
    sentence = f"/{name} is a symbolic link, which is not followed"
    assert problem(engine, tmp_path / "history").endswith(sentence)
    (tmp_path / "history" / name).unlink()
    assert not verify(engine, [str(tmp_path / "by-link")], VerificationSetting(on_its_way_ns=0)).problems


def test_a_bucket_without_its_compacted_file_is_named(engine: Engine, tmp_path: Path) -> None:
    path = first_of(written(tmp_path, is_compacted=True))
    bucket = path.parent
    path.unlink()
    assert problem(engine, tmp_path) == f"file:{bucket} is gone: the history had events there when it was compacted"
    bucket.rmdir()
    assert problem(engine, tmp_path).startswith(f"file:{bucket} is gone")
    last = max(tmp_path.glob("*"))
    assert not verify(engine, [str(last)], VerificationSetting(on_its_way_ns=0)).problems


def with_a_null(table: pa.Table, name: str) -> pa.Table:
    column = table[name].combine_chunks()
    column = pa.chunked_array([pa.concat_arrays([column[:5], pa.nulls(1, column.type), column[6:]])])
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])
    return table.cast(nullable).set_column(table.schema.get_field_index(name), nullable.field(name), column)


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize(
    ("is_compacted", "sentence"),
    [(True, "file:{path} is damaged: an event of it has no {name}"), (False, "an event has no {name}: a ")],
)
def test_a_missing_value_is_named(engine: Engine, tmp_path: Path, name: str, is_compacted: bool, sentence: str) -> None:
    path = first_of(written(tmp_path, EVENTS[: len(EVENTS) // 6], is_compacted=is_compacted))
    table = with_a_null(pq.read_table(path, partitioning=None), name)
    footer = {key: said for key, said in pq.read_metadata(path).metadata.items() if key.startswith(b"pulsar")}
    pq.write_table(table.replace_schema_metadata(footer), path)
    found = verify(engine, [str(tmp_path)], VerificationSetting(on_its_way_ns=0))
    assert found.exit_status in ((2,) if is_compacted else (1, 2))  # without an event, others may break a rule
    assert found.problems[0].startswith(sentence.format(path=path, name=name))
