"""A hunt for two defects in brokers of its own, and the replay of what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DEFECTS = ("check-removed", "gap-refused")


def conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    command = [sys.executable, "-m", "conformance.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture
def broker_name(request: pytest.FixtureRequest) -> str:
    """What the tests run against, where it can have defects."""
    name: str = request.config.getoption("--broker")
    if "://" in name:
        pytest.skip("a cluster that runs already has no agent inside, which a defect needs")
    return name


def test_defects_are_found_and_their_histories_replay_with_them_and_not_without(
    broker_name: str, tmp_path: Path
) -> None:
    broker = ("--broker", broker_name)
    hunt = ("defects", "--hunt", *DEFECTS, *broker, "--budget", "120s", "--seed", "1")
    hunted = conformance(tmp_path, *hunt, "--report", "hunt", "--json", "hunt.json")
    assert hunted.returncode == 0, hunted.stderr
    assert "2 of 2 defects found." in hunted.stdout

    told = json.loads((tmp_path / "hunt.json").read_text())["defects"]
    assert [(one["id"], one["result"]) for one in told] == [(name, "found") for name in DEFECTS]
    assert all(one["replays"]["came_back"] > 0 for one in told)
    assert all(one["replays_without_defect"]["came_back"] == 0 for one in told)

    replay = ("replay", f"hunt/{told[0]['history']}", *broker, "--times", "2")
    again = conformance(tmp_path, *replay)
    assert again.returncode == 1, again.stdout
    assert again.stdout.startswith("With the defect check-removed switched on: ")
    without = conformance(tmp_path, *replay, "--defect", "none")
    assert without.returncode == 0, without.stdout
