"""``check --baseline``: what is new against a baseline, on real brokers and against a file of verdicts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from rich.console import Console

from conformance.cli.parameters.options import known_deviations
from conformance.commands.check import CheckOptions, read
from conformance.commands.comparison.baseline import Baseline, compare
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.supervisor import events_file
from conformance.events import AnyEvent, RunAsked, RunFinished, RunStarted, ViolationFound, ViolationMinimised, encode
from conformance.history import document
from conformance.known import HISTORIES
from conformance.report import verdicts_json
from conformance.report.sentences.forms import CheckForm
from model.rules.catalogue import RULES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEFECT = "check-removed"
STORED = Path(__file__).parents[1] / "replays" / "histories" / "dedup" / f"{DEFECT}.json"


def checked(folder: Path, history: document.History) -> CheckOptions:
    """The folder of a check that found a violation, and its options."""
    violation = history.violation
    assert violation is not None
    found = folder / f"{violation.rule}-1.json"
    document.write(history, found)
    rules = (violation.rule,)
    events: list[AnyEvent] = [
        RunAsked(at_s=0.0, command="check", broker="4.0.8", rules=rules, seed=1, budget_s=60.0),
        RunStarted(
            at_s=1.0,
            release="4.0.8",
            broker="4.0.8",
            clients=history.clients,
            seed=1,
            budget_s=60.0,
            rules=rules,
            machines=(history.machine,),
            settings=history.settings,
        ),
        ViolationFound(at_s=2.0, machine=history.machine, violation=violation, history=str(found), operations=9),
        ViolationMinimised(
            at_s=3.0, original=str(found), history=str(found), steps=len(history.steps), tries=5, came_back=5
        ),
        RunFinished(at_s=4.0, operations=9),
    ]
    events_file(folder).write_bytes(b"".join(map(encode, events)))
    return CheckOptions(
        broker="4.0.8",
        rules=(RULES[violation.rule],),
        budget_s=60.0,
        seed=1,
        known=known_deviations(None),
        report=folder,
        json=None,
        defect=history.defect,
        machines=(),
        settings=(),
        command="check",
        lanes=6,
    )


def against(baseline: Baseline, asked: CheckOptions) -> tuple[str, int]:
    """The result of the comparison, and the exit status of the check."""
    assert asked.report is not None
    quiet = Console(quiet=True)
    compare(baseline, asked, asked.report, Engine(), out=quiet, err=quiet)
    data = read(asked.report)
    form = verdicts_json.form(data, folder=asked.report, when=NOW)
    (rule,) = form.rules
    assert rule.baseline is not None
    return rule.baseline.result, data.verdicts.exit_status


@pytest.mark.parametrize(
    ("on_baseline", "result", "status"), [(None, "new", 1), (DEFECT, "there-before", 0)], ids=["absent", "present"]
)
def test_a_seeded_defect_is_new_unless_the_baseline_has_it(
    on_baseline: str | None, result: str, status: int, tmp_path: Path
) -> None:
    asked = checked(tmp_path, document.read(STORED))
    assert read(tmp_path).verdicts.exit_status == 1
    assert against(Baseline(name="4.0.8", defect=on_baseline), asked) == (result, status)


def test_a_violation_that_every_broker_shows_is_not_new(tmp_path: Path) -> None:
    """As an error of the suite would: the violation comes back on both, though neither has a defect."""
    asked = checked(tmp_path, document.read(HISTORIES / "overlapping-batch-dropped.json"))
    assert read(tmp_path).verdicts.exit_status == 1
    assert against(Baseline(name="3.3.6"), asked) == ("there-before", 0)


def test_a_file_of_verdicts_tells_what_it_exercised_and_cannot_call_anything_new(tmp_path: Path) -> None:
    history = document.read(STORED)
    for verdict, result, status in (("violated", "there-before", 0), ("held", "undecided", 3)):
        folder = tmp_path / verdict
        folder.mkdir()
        asked = checked(folder, history)
        form = verdicts_json.form(read(folder), folder=folder, when=NOW)
        (rule,) = form.rules
        before: CheckForm = structs.replace(form, rules=[structs.replace(rule, verdict=verdict)])
        (folder / "before.json").write_bytes(msgspec.json.encode(before))
        assert against(Baseline.read(str(folder / "before.json")), asked) == (result, status)
