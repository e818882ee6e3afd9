"""The file with the choices of earlier runs: what it lacks, and that runs prefer that."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from conformance.coverage.choices import Choices, is_kill
from conformance.coverage.coverage import TRIES, Coverage, Drawn, gaps
from conformance.coverage.guide import Guide
from conformance.engine.example import RunningExample
from conformance.engine.execution import run_round
from conformance.engine.machines import Machine
from conformance.harness_error import HarnessError
from conformance.lockstep.lockstep import Lockstep
from conformance.report import coverage as report
from model.events import Created, Done, Subscribed
from model.example import Example
from model.operations import CreateTopic
from model.subscription_operations import Nack, Receive, Subscribe
from stateful.cursors.machines import AcknowledgmentMachine
from stateful.mixed import MixedKillsMachine, MixedMachine
from tests.lockstep.simulated.world import SimulatedPerformer

TOPIC, SHARED = CreateTopic("t0"), Subscribe("c1", "t0", "s1", kind="Shared")
OPENINGS = {"M.nack > Nack": 9, "M.nack > Receive": 1, "M.take > Receive": 3}


def subscribed() -> Choices:
    choices = Choices()
    choices.note(TOPIC, Created(deduplication=False, snapshot_room=6))
    choices.note(SHARED, Subscribed())
    return choices


def test_a_file_has_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "coverage.json"
    assert Coverage.read(file).drawn == Drawn()
    drawn = Drawn(choices={"Shared: Skip > Kill": 2}, tried={"Shared: Kill > Skip": 1}, openings=OPENINGS)
    Coverage(drawn).write(file)
    assert Coverage.read(file).drawn == drawn
    assert (drawn + drawn).choices == {"Shared: Skip > Kill": 4}


OTHER_FILES = [b"", b"[]", b'{"choices": 3}', b"\xff", b'{"choices": {"x": 1}}', b'{"openings": {"x": 1}}']


@pytest.mark.parametrize("content", OTHER_FILES)
def test_a_file_of_another_kind_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(HarnessError, match=r"other\.json is no coverage that a check has written"):
        Coverage.read(file)


def test_a_rule_lacks_what_it_usually_begins_with_and_no_run_has_drawn() -> None:
    coverage = Coverage(Drawn(openings=OPENINGS, choices={"Shared: Subscribe > Receive": 1}))
    assert coverage.lacking("M.nack", subscribed()) == [
        "Shared: Subscribe > Nack",
        "deduplication off: Subscribe > Nack",
    ]
    assert coverage.lacking("M.take", subscribed()) == ["deduplication off: Subscribe > Receive"]
    assert coverage.lacking("M.unknown", subscribed()) == []


def test_a_choice_that_was_tried_in_vain_is_given_up() -> None:
    tried = {"Shared: Subscribe > Nack": TRIES, "deduplication off: Subscribe > Nack": TRIES - 1}
    coverage = Coverage(Drawn(openings=OPENINGS, tried=tried))
    assert coverage.lacking("M.nack", subscribed()) == ["deduplication off: Subscribe > Nack"]


def test_an_example_tells_what_its_rules_began_with_and_what_they_were_preferred_for() -> None:
    guide = Guide(Coverage(Drawn(openings=OPENINGS)))
    guide.note(TOPIC, Created(deduplication=False, snapshot_room=6))
    guide.begins("M.join")
    guide.note(SHARED, Subscribed())
    assert guide.lacks("M.nack")
    guide.begins("M.nack")
    guide.note(Nack("c1", None), Done())
    guide.note(Receive("c1", 1), Done())
    drawn = guide.drawn
    assert drawn.openings == {"M.join > Subscribe": 1, "M.nack > Nack": 1}
    assert drawn.tried == {"Shared: Subscribe > Nack": 1, "deduplication off: Subscribe > Nack": 1}
    assert drawn.choices["Shared: Nack > Receive"] == 1


def test_gaps_are_the_pairs_and_the_kills_that_never_were() -> None:
    drawn = Drawn(
        choices={
            "Shared: nothing > Skip": 1,
            "Shared: Skip > Kill": 2,
            "Shared: Kill > Nack": 1,
            "Shared: Skip > Kill > Nack": 1,
        }
    )
    (found,) = gaps(drawn).items()
    one, its = found
    assert (one, its.pairs, its.never_killed) == ("Shared", 2, ["Nack"])
    assert its.never_after == {"Kill": ["Kill", "Skip"], "Nack": ["Kill", "Nack", "Skip"], "Skip": ["Nack", "Skip"]}


def drawn_in(machine: type[AcknowledgmentMachine | MixedMachine], before: Drawn, *, seed: int, rounds: int) -> Drawn:
    """What some rounds of a machine draw on simulated brokers."""
    drawn = Drawn()

    def ended(example: RunningExample) -> None:
        nonlocal drawn
        if example.guide is not None:
            drawn += example.guide.drawn

    def begin() -> RunningExample:
        lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
        return RunningExample(lockstep, is_time_up=lambda: False, on_end=ended, guide=Guide(Coverage(before)))

    one = Machine(name="one", decides=(), factory=machine, steps=12, examples=4)
    for number in range(rounds):
        run_round(one, begin, seed=1000 * seed + number)
    return drawn


def new_choices(
    machine: type[AcknowledgmentMachine | MixedMachine], seeds: Iterable[int], *, is_guided: bool
) -> set[str]:
    """What some runs draw that a run before them has not drawn: how many choices are new varies by a quarter."""
    new = set()
    for first in seeds:
        before = drawn_in(machine, Drawn(), seed=first, rounds=4)
        known = before if is_guided else Drawn(choices=before.choices)  # without openings nothing is expected of a rule
        for seed in (first + 1, first + 2):
            run = drawn_in(machine, known, seed=seed, rounds=4)
            new |= {f"{seed} {choice}" for choice in run.choices.keys() - before.choices.keys()}
    return new


@pytest.mark.parametrize(("machine", "seeds"), [(AcknowledgmentMachine, (1, 4, 7)), (MixedKillsMachine, (1, 4, 7))])
def test_a_run_prefers_what_no_run_before_it_has_drawn(
    machine: type[AcknowledgmentMachine | MixedMachine], seeds: Sequence[int]
) -> None:
    guided, aimless = (new_choices(machine, seeds, is_guided=is_guided) for is_guided in (True, False))
    assert len(guided) > 1.03 * len(aimless)  # a rule that reads draws several kinds, of which none is preferred
    if machine is MixedKillsMachine:
        assert len(before_kills(guided)) > 1.05 * len(before_kills(aimless))


def before_kills(choices: set[str]) -> set[str]:
    return {choice for choice in choices if choice.count(" > ") == 1 and is_kill(choice.rpartition(" > ")[2])}


def test_the_same_seed_and_file_repeat_the_choices() -> None:
    before = drawn_in(AcknowledgmentMachine, Drawn(), seed=1, rounds=3)
    again = [drawn_in(AcknowledgmentMachine, before, seed=2, rounds=3) for _ in range(2)]
    assert again[0] == again[1]


def test_the_report_counts_new_choices_and_lists_what_is_missing() -> None:
    before = Drawn(choices={"Shared: Skip > Kill": 2})
    drawn = Drawn(choices={"Shared: Skip > Kill": 1, "Shared: Kill > Nack": 1})
    console = Console(record=True, width=200)
    report.show(before, drawn, console, verbose=True)
    text = console.export_text()
    assert "the run drew 2 choices, 1 of them for the first time; all runs drew 2." in text
    assert "Shared: Nack was never followed by Kill, Nack, Skip" in text
