"""Since when, and until when: the search over branches, and over builds on a real broker."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.brokers.release import fetched_release
from conformance.cli import cli
from conformance.commands.comparison.branches import State, branches, search
from conformance.commands.supervision.engine import Engine
from conformance.known import HISTORIES

LINE = [f"4.0.{patch}" for patch in range(9)]


def searched(states: Mapping[str, State | None], line: list[str] | None = None) -> tuple[list[str], list[str]]:
    """The intervals in words, and what was tried."""
    tried: list[str] = []

    def has(release: str) -> State | None:
        tried.append(release)
        return states[release]

    return [str(one) for one in search(line or LINE, has)], tried


def since(first: int, *, unknown: tuple[int, ...] = ()) -> dict[str, State | None]:
    return {
        release: None if patch in unknown else "gone" if patch < first else "there"
        for patch, release in enumerate(LINE)
    }


def test_releases_are_branches_with_milestones_before_their_release() -> None:
    assert branches(["4.0.10", "3.3.6", "5.0.0", "4.0.9", "5.0.0-M1", "4.0.9"]) == [
        ("3.3", ["3.3.6"]),
        ("4.0", ["4.0.9", "4.0.10"]),
        ("5.0", ["5.0.0-M1", "5.0.0"]),
    ]


@pytest.mark.parametrize("first", range(1, 9))
def test_the_change_of_a_branch_is_found_by_halving(first: int) -> None:
    intervals, tried = searched(since(first))
    gone = "4.0.0" if first == 1 else f"4.0.0 to 4.0.{first - 1}"
    there = "4.0.8" if first == 8 else f"4.0.{first} to 4.0.8"
    assert intervals == [f"gone in {gone}", f"there in {there}"]
    assert len(tried) <= 5


def test_nothing_between_alike_ends_is_tried() -> None:
    assert searched(since(0)) == (["there in 4.0.0 to 4.0.8"], ["4.0.0", "4.0.8"])
    assert searched(since(0), ["4.0.3"]) == (["there in 4.0.3"], ["4.0.3"])


@pytest.mark.parametrize("unknown", [(0,), (8,), (4,), (3, 4, 5), (0, 1, 7, 8)])
def test_a_release_that_cannot_be_told_is_left_out(unknown: tuple[int, ...]) -> None:
    intervals, _ = searched(since(6, unknown=unknown))
    known = [patch for patch in range(9) if patch not in unknown]
    gone = [patch for patch in known if patch < 6]
    assert intervals[0] == f"gone in 4.0.{gone[0]} to 4.0.{gone[-1]}"
    assert intervals[1].startswith("there in 4.0.6")


def test_a_branch_of_which_nothing_can_be_told_has_no_interval() -> None:
    assert searched(dict.fromkeys(LINE))[0] == []


def test_the_first_build_with_a_find_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each revision of a repository names a release, which stands for its build."""
    monkeypatch.chdir(tmp_path)
    revisions = []
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for version in ("4.0.8", "4.0.8", "5.0.1"):
        (tmp_path / "build").write_text(str(fetched_release(version).folder))
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", version], check=True)
        shown = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        revisions.append(shown.stdout.strip())
    history = HISTORIES / "ack-below-mark-delete-refused.json"
    asked = ["bisect", str(history), "--good", revisions[0], "--bad", revisions[2], "--command", "git show $REV:build"]
    ran = CliRunner().invoke(cli, [*asked, "--report", "report"], obj=Engine(), standalone_mode=False)
    assert ran.return_value == 0
    assert ran.stdout.splitlines()[-1] == (
        f"{revisions[2]} is the first build in which ack-below-mark-delete-refused (SERVE-01) is there."
    )


def test_a_command_that_makes_no_build_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    history = HISTORIES / "ack-below-mark-delete-refused.json"
    asked = ["bisect", str(history), "--good", "HEAD~1", "--bad", "HEAD", "--command", "echo nowhere; exit 3"]
    ran = CliRunner().invoke(cli, [*asked, "--report", str(tmp_path / "r")], obj=Engine(), standalone_mode=False)
    assert ran.return_value == 2
    assert "the command ended with status 3, and its last line is no distribution: 'nowhere'" in ran.stdout
