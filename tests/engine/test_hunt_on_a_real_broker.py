"""A hunt for a defect in a broker of its own, and the replay of what it found."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.history.recorded import Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import random_histories
from tests.waits import given_time

DEFECT = "check-removed"


def conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=330)


@pytest.fixture
def broker_name(request: pytest.FixtureRequest) -> str:
    """What the tests run against, where it can have defects."""
    name: str = request.config.getoption("--broker")
    if "://" in name:
        pytest.skip("a cluster that runs already has no agent inside, which a defect needs")
    return name


def test_the_history_of_a_found_defect_comes_back_with_the_defect_and_not_without(
    broker_name: str, tmp_path: Path
) -> None:
    broker = ("--broker", broker_name)
    hunt = ("defects", "--hunt", DEFECT, *broker, "--budget", "120s", "--seed", "1")
    hunted = conformance(tmp_path, *hunt, "--report", "hunt", "--json", "hunt.json")
    assert hunted.returncode == 0, hunted.stderr
    assert "1 of 1 defect found." in hunted.stdout

    (told,) = json.loads((tmp_path / "hunt.json").read_text())["defects"]
    assert (told["id"], told["result"]) == (DEFECT, "found")
    assert told["replays"]["came_back"] > 0
    assert told["replays_without_defect"]["came_back"] == 0

    replay = ("replay", f"hunt/{told['history']}", *broker, "--times", "2")
    again = conformance(tmp_path, *replay)
    assert again.returncode == 1, again.stdout
    assert again.stdout.startswith(f"With the defect {DEFECT} switched on: ")
    without = conformance(tmp_path, *replay, "--defect", "none")
    assert without.returncode == 0, without.stdout


@pytest.mark.parametrize("defect", [None, "draining-not-checked"])
def test_the_history_of_a_check_is_judged_without_the_model(
    broker_name: str, tmp_path: Path, defect: str | None
) -> None:
    asked = ("check", "--broker", broker_name, "--machines", "keys", "--rules", "KEY-01", "--lanes", "2", "--seed", "1")
    seeded = () if defect is None else ("--defect", defect)
    budget, told = given_time(
        lambda budget: (
            conformance(tmp_path, *asked, *seeded, "--budget", budget, "--history", f"history-{budget}").stdout
        ),
        lambda told: not re.search(r"^KEY-01 +not exercised", told, re.M),
    )
    assert bool(re.search(r"^KEY-01 +held", told, re.M)) == (defect is None), told
    examples = [
        random_histories.judged(example, setting=VerificationSetting(), rows_of_a_batch=10_000)
        for example in runs_in(tmp_path / f"history-{budget}")
    ]
    assert sum(judged["one consumer at a time"][0] for judged in examples) >= 5
    broken = set().union(*map(random_histories.broken_in, examples))
    if defect is None:
        assert not broken
    else:
        assert "one consumer at a time" in broken <= {"one consumer at a time", "keys in order"}


def runs_in(history: Path) -> list[list[Recorded]]:
    """The events of each run of a history, apart."""
    events = sorted(random_histories.read(history), key=lambda event: event.run)
    return [list(own) for _, own in itertools.groupby(events, key=lambda event: event.run)]
