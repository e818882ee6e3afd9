"""How a history is written: a line for each step, and read back as it was."""

from __future__ import annotations

from pathlib import Path

from conformance.history import document
from tests.report import samples

ROOT = Path(__file__).parents[2]
FOLDERS = ("conformance/known/histories", "docs/histories", "tests/replays/histories/*")
STORED = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.json"))


def test_each_step_is_one_line(tmp_path: Path) -> None:
    history = samples.history()
    document.write(history, tmp_path / "history.json")
    lines = (tmp_path / "history.json").read_text().splitlines()
    assert len(history.steps) > 1
    assert sum('"operation"' in line for line in lines) == len(history.steps)
    assert document.read(tmp_path / "history.json") == history


def test_stored_histories_have_one_line_for_each_step() -> None:
    assert len(STORED) > len(FOLDERS)
    for path in STORED:
        steps = [line for line in path.read_text().splitlines() if line.startswith(' {"operation"')]
        assert len(steps) == len(document.read(path).steps), path
