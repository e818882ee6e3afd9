"""Tests of the journal of a run."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from conformance.history.journal import ExampleBegins, Journal, JournalStep, read_journal
from model.events import Done
from model.operations import Unload
from tests.report import samples


def test_a_journal_is_read_up_to_a_line_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal, step = Journal(path), samples.step(Unload("t0"), Done())
    journal.begin(1, "deduplication")
    journal.record(step)
    journal.close()
    whole = [ExampleBegins(1, "deduplication"), JournalStep(step)]
    assert list(read_journal(path)) == whole
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:-5])
    assert list(read_journal(path)) == whole[:1]
    grown = iter([first, second[:9], second[9:]])  # what was written while the line before was read
    monkeypatch.setattr(Path, "open", lambda _, _mode: nullcontext(grown))
    assert list(read_journal(path)) == whole[:1]
