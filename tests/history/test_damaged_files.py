"""One changed byte at the end of a file, wherever it is, or a cut: one sentence, or all of its events."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conformance.harness_error import HarnessError
from conformance.history.about import About
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from conformance.pipeline.files.compacted_files import Damaged, OpenedFile
from conformance.pipeline.files.footers import _examined
from conformance.pipeline.files.local_files import LocalStorage
from conformance.pipeline.results import NEEDED
from tests.history.samples import event

EVENTS: Final = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a history."""
    folder = tmp_path_factory.mktemp("whole")
    with HistoryWriter(folder, "w", about=About(release="4.0.8", clients={"wire": "1"})) as writer:
        for sequence_id in range(EVENTS):
            writer.record(event(producer="p", sequence_id=sequence_id))
    (path,) = folder.glob("*/*.parquet")
    return path


@st.composite
def damages(draw: st.DrawFn) -> tuple[float, int]:
    """A place in the footer, as a share of it, and the change of its byte; 0 cuts the file off there."""
    return draw(st.floats(0, 1, exclude_max=True)), draw(st.integers(0, 255))


def damaged(path: Path, folder: Path, at: float, change: int) -> Path:
    """A copy of a file, damaged there, in a history of its own."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    place = len(content) - footer + int(at * footer)
    content[place] ^= change
    copy = folder / path.parent.name / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(content if change else content[:place])
    return copy


@settings(max_examples=400, deadline=None)
@given(damage=damages())
def test_a_damaged_file_has_a_problem_or_all_events(
    damage: tuple[float, int], whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = damaged(whole, tmp_path_factory.mktemp("copy"), *damage)
    address = f"file:{copy}"
    found = _examined(LocalStorage(), address, copy.stat().st_size)
    if isinstance(found, str):
        assert found.startswith(f"{address} ")
        assert "\n" not in found
        return
    try:
        events = sum(batch.num_rows for batch in OpenedFile(address, None).batches(NEEDED))
    except Damaged:
        return
    assert events == EVENTS


def test_every_byte_of_the_footer_may_change(whole: Path, tmp_path: Path) -> None:
    """No change ends the process, which an exhaustive test shows and a random one may miss."""
    content = whole.read_bytes()
    copy = tmp_path / "copy.parquet"
    for place in range(len(content) - int.from_bytes(content[-8:-4], "little") - 8, len(content)):
        copy.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        _examined(LocalStorage(), f"file:{copy}", len(content))


@settings(max_examples=150, deadline=None)
@given(damage=damages())
@example(damage=(0.999, 0))
def test_compacting_a_damaged_file_keeps_it_or_all_of_its_events(
    damage: tuple[float, int], whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    copy = damaged(whole, folder, *damage)
    refused = ""
    try:
        compact(folder)
    except HarnessError as error:
        refused = str(error)
    if refused:
        assert copy.name in refused
        assert "\n" not in refused
        assert copy.exists()
        return
    (made,) = folder.glob("*/*.parquet")
    assert sum(batch.num_rows for batch in OpenedFile(f"file:{made}", None).batches(NEEDED)) == EVENTS


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", b"\0" * 100])
def test_a_file_of_something_else_is_named(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "history" / "bucket-0000"
    folder.mkdir(parents=True)
    file = folder / "a.parquet"
    file.write_bytes(content)
    found = _examined(LocalStorage(), f"file:{file}", len(content))
    assert isinstance(found, str)
    assert found.startswith(f"file:{file} is not a whole Parquet file: ")
    with pytest.raises(HarnessError, match=r"a.parquet is not a whole file of a history: "):
        compact(folder.parent)
