"""``reproduce --all``: a line of each find, and a campaign that goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.commands.comparison.reproduce_all import finds_of
from conformance.report.docs.track_record import Reproduced, read
from tests.cli.command_line import run

CLIENTS = {"official": "3.13.0", "wire": "0.1.0"}


def line(name: str, came_back: int) -> bytes:
    made = Reproduced(
        deviation=name,
        release="4.0.8",
        clients=CLIENTS,
        suite="0.1.0",
        date="2026-11-30",
        tries=4,
        came_back=came_back,
    )
    return msgspec.json.encode(made) + b"\n"


def campaign(folder: Path, *left: str, gone: str | None = None) -> Path:
    """The file of a campaign on 4.0.8 that has all finds but those that are ``left``."""
    names = [name for name, _ in finds_of("4.0.8", CLIENTS) if name not in left]
    (folder / "lines").mkdir()
    file = folder / "lines" / "4.0.8.jsonl"
    file.write_bytes(b"".join(line(name, 0 if name == gone else 4) for name in names))
    return file


def test_only_finds_without_a_line_are_replayed_and_one_that_came_back_in_no_replay_is_named(tmp_path: Path) -> None:
    file = campaign(tmp_path, "overlapping-batch-dropped", gone="peek-creates-subscription")
    ran = run("holds", "reproduce", "--all", "--broker", "4.0.8", "--output", "lines", "--times", "2", folder=tmp_path)
    assert ran.status == 1, ran.err
    assert "peek-creates-subscription came back in none of 4 replays" in ran.out
    *_, last = read(file)
    assert last.deviation == "overlapping-batch-dropped"
    assert not last.came_back
    assert last.why


def test_a_race_that_did_not_come_back_in_few_replays_is_not_gone(tmp_path: Path) -> None:
    campaign(tmp_path, gone="rollover-reopens-terminated-topic")
    ran = run("holds", "reproduce", "--all", "--broker", "4.0.8", "--output", "lines", folder=tmp_path)
    assert ran.status == 2, ran.err
    assert "rollover-reopens-terminated-topic: 4 replays, in none of which it came back, are too few" in ran.out


def test_a_campaign_that_has_all_lines_replays_nothing(tmp_path: Path) -> None:
    file = campaign(tmp_path)
    before = file.read_bytes()
    ran = run("holds", "reproduce", "--all", "--broker", "4.0.8", "--output", "lines", folder=tmp_path)
    assert ran.status == 0, ran.err
    assert file.read_bytes() == before
    assert not (tmp_path / "lines" / "reports").exists()


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "Name either a deviation or --all."),
        ("peek-creates-subscription --all", "Name either a deviation or --all."),
        ("peek-creates-subscription --output x", "--output goes with --all."),
        ("--all", "--all goes with --broker"),
        ("--all --broker 4.0.8 --report x", "--all goes with --broker"),
        ("--all --broker 3.3.6,4.0.8", "--all needs a broker of one release"),
    ],
)
def test_bad_input_is_a_sentence(typed: str, sentence: str, tmp_path: Path) -> None:
    ran = run("holds", "reproduce", *typed.split(), folder=tmp_path)
    assert ran.status == 2
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_file_that_is_no_track_record_is_a_sentence(tmp_path: Path) -> None:
    campaign(tmp_path).write_text("{}")
    ran = run("holds", "reproduce", "--all", "--broker", "4.0.8", "--output", "lines", folder=tmp_path)
    assert ran.status == 2
    assert "is not a track record" in ran.err
