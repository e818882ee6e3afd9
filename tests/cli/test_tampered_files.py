"""Files that a user names, with any values in their fields: the command ends with a sentence, never with a bug."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cli import main
from conformance.events import RunAsked, encode
from conformance.history import document
from tests.history.tampering import tamper
from tests.report import samples

BUG = "the suite itself failed"
A_FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
NOWHERE = ("--broker", "dist:no-such-folder")

KNOWN: list[Any] = [
    {"deviation": "overlapping-batch-dropped", "releases": ["==4.0.8"], "history": "h.json"},
    {"deviation": "replay-filtered-after-limit", "clients": {"official": ">=3.0"}, "seldom": ["==3.3.6"]},
    {"deviation": "pushed-id-in-producer-success", "switched_on": {"a=b": [">=2.5,<4"]}, "summary": "s", "cause": "c"},
]
ASKED = RunAsked(
    at_s=0.0,
    command="pulsar-conformance check --broker 4.0.8",
    broker="4.0.8",
    rules=tuple(samples.STARTED.rules),
    seed=1,
    budget_s=60.0,
    known=(samples.QUIRK, samples.OTHER_QUIRK),
)
EVENTS: list[Any] = [json.loads(encode(event)) for event in [ASKED, *samples.run(samples.FOUND, samples.MINIMISED)]]
HISTORY: Any = json.loads(document.encode(samples.history()))


def said(*arguments: object) -> str:
    """What a command printed, which ended with a status of its own."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert ended.value.code in (0, 1, 2, 3)
    return printed.getvalue()


def tampered(whole: Any, data: st.DataObject) -> Any:
    changed = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        if changed:
            tamper(changed, data)
    return changed


def written(folder: Path, name: str, documents: Sequence[Any]) -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(one)}\n" for one in documents))
    return path


@A_FEW
@given(st.data())
def test_a_tampered_list_of_known_deviations_is_one_sentence(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "h.json").write_text(json.dumps(HISTORY))
    known = written(tmp_path, "known.json", [tampered(KNOWN, data)])
    assert BUG not in said("check", *NOWHERE, "--budget", "10s", "--known", known, "--report", tmp_path / "report")


@A_FEW
@given(st.data())
def test_a_tampered_history_is_one_sentence(tmp_path: Path, data: st.DataObject) -> None:
    history = written(tmp_path, "h.json", [tampered(HISTORY, data)])
    assert BUG not in said("replay", history, *NOWHERE, "--report", tmp_path / "report")


@A_FEW
@given(st.data())
def test_a_report_of_tampered_events_is_made_or_is_one_sentence(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "histories").mkdir(exist_ok=True)
    written(tmp_path, "histories/1.json", [tampered(HISTORY, data)])
    written(tmp_path, "events.jsonl", tampered(EVENTS, data))
    assert BUG not in said("report", tmp_path)


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([{**EVENTS[0], "known": [{**EVENTS[0]["known"][0], "releases": ["<script>"]}]}], "does not specify releases"),
        ([*EVENTS, {**EVENTS[-1], "operations": -1}], "does not have the events of a run"),
        ([*EVENTS, {**EVENTS[-1], "at_s": -1e308}], "does not have the events of a run"),
    ],
)
def test_events_that_no_run_has_are_refused(tmp_path: Path, events: list[Any], sentence: str) -> None:
    written(tmp_path, "events.jsonl", events)
    assert sentence in said("report", tmp_path).replace("\n", " ")
