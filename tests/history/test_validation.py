"""Which histories are refused before a broker is started, and in which words; no stored one is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History
from conformance.history.validation import nonsense
from conformance.report.sentences.words import explain
from tests.history.tampering import tamper
from tests.report import samples

ROOT = Path(__file__).parents[2]
STORED = sorted([*ROOT.glob("conformance/known/histories/*.json"), *ROOT.glob("docs/histories/*.json")])

Change = Callable[[dict[str, Any]], Any]


def sample() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(document.encode(samples.history(violation=samples.VIOLATION)))
    return read


def said_of(raw: Any, folder: Path) -> str | None:
    """What a history is refused with, as ``replay`` refuses it."""
    path = folder / "h.json"
    path.write_bytes(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    try:
        return nonsense(document.read(path))
    except HarnessError as harness_error:
        return str(harness_error).removeprefix(f"{path} ")


def operation(raw: dict[str, Any], op: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s["operation"] for s in raw["steps"] if s["operation"]["op"] == op)
    return found


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_stored_history_is_accepted(path: Path) -> None:
    assert nonsense(document.read(path)) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h: h.update(steps=[]), "has no steps: there is nothing to replay"),
        (
            lambda h: [step.update(outcome={"outcome": "Skipped", "why": "-"}) for step in h["steps"]],
            "has skipped steps only: there is nothing to replay",
        ),
        (
            lambda h: operation(h, "Send").update(session="s9"),
            "makes no sense in step 3 (Send): no operation of the history makes the session 's9'",
        ),
        (
            lambda h: operation(h, "ReadLog").update(topic="t9"),
            "makes no sense in step 10 (ReadLog): no operation of the history makes the topic 't9'",
        ),
        (
            lambda h: operation(h, "CreateTopic").update(partitions=-1),
            "makes no sense in step 1 (CreateTopic): partitions is -1, which is not between 0 and 1000",
        ),
        (
            lambda h: operation(h, "CreateTopic").update(partitions=10**9),
            "makes no sense in step 1 (CreateTopic): partitions is 1000000000, which is not between 0 and 1000",
        ),
        (
            lambda h: operation(h, "Send")["entries"][0]["messages"][0].update(sequence_id=-4),
            f"makes no sense in step 3 (Send): sequence_id is -4, which is not between 0 and {2**63 - 1}",
        ),
        (
            lambda h: operation(h, "Send")["entries"][0].update(messages=[]),
            "makes no sense in step 3 (Send): an entry has no message",
        ),
        (
            lambda h: operation(h, "Send").update(entries=[]),
            "makes no sense in step 3 (Send): it sends no entry",
        ),
        (
            lambda h: h["steps"][2]["outcome"]["answers"][0]["position"].update(ledger=-7),
            "makes no sense in step 3 (Send): ledger is -7 in its outcome",
        ),
        (
            lambda h: h["steps"][2]["outcome"]["answers"][0]["position"].update(entry=2**70),
            f"makes no sense in step 3 (Send): entry is {2**70} in its outcome",
        ),
        (
            lambda h: h["steps"][2].update(invoked_ms=9.0, completed_ms=3.0),
            "makes no sense in step 3 (Send): it ends at 3 ms and begins at 9 ms",
        ),
        (
            lambda h: h["violation"].update(rule="dedup-03"),
            "breaks a rule that is not known: there is no rule 'dedup-03'; did you mean 'DEDUP-03'?",
        ),
        (lambda h: h["violation"].update(step=11), "says that its step 11 breaks a rule, and has 10 steps"),
        (
            lambda h: h.update(replays={"tries": 2, "came_back": 3}),
            "says that it came back 3 times in 2 replays",
        ),
        (lambda h: h.update(seed=-1), "has the seed -1, which no run can have"),
        (
            lambda h: h["settings"].update({"a\nb": "c"}),
            "has a setting that is no line of a configuration: 'a\\nb' = 'c'",
        ),
        (
            lambda h: h.update(format=document.FORMAT + 1),
            f"has format {document.FORMAT + 1}; this suite reads only format {document.FORMAT}",
        ),
        (
            lambda h: h.update(format=document.FORMAT - 1, steps="of another form"),
            f"has format {document.FORMAT - 1}; this suite reads only format {document.FORMAT}",
        ),
        (lambda h: h.update(extra=1), "is not a history of this suite: it has an unknown field, $.extra"),
        (
            lambda h: operation(h, "Send").update(wiat=True),
            "is not a history of this suite: it has an unknown field, $.steps[2].operation.wiat",
        ),
        (
            lambda h: h["steps"][2]["outcome"]["answers"][0]["position"].update(batch=1),
            "is not a history of this suite: it has an unknown field, $.steps[2].outcome.answers[0].position.batch",
        ),
        (
            lambda h: operation(h, "Send").update(op="Sennd"),
            "is not a history of this suite: Invalid value 'Sennd' - at `$.steps[2].operation.op`",
        ),
        (
            lambda h: h.update(seed="seven"),
            "is not a history of this suite: Expected `int`, got `str` - at `$.seed`",
        ),
    ],
)
def test_an_inconsistent_history_is_one_sentence(change: Change, sentence: str, tmp_path: Path) -> None:
    raw = sample()
    assert said_of(raw, tmp_path) is None
    change(raw)
    assert said_of(raw, tmp_path) == sentence


@pytest.mark.parametrize("content", [b"", b"\x00\xff\x80", b"[" * 100_000, b'{"machine": "\xff"}'])
def test_json_that_is_no_history_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    said = said_of(content, tmp_path)
    assert said is not None
    assert said.startswith("is not a history of this suite: ")
    assert "\n" not in said


def test_a_truncated_history_is_one_sentence(tmp_path: Path) -> None:
    whole = document.encode(samples.history())
    for length in range(0, len(whole) - 2, 97):
        assert (said_of(whole[:length], tmp_path) or "").startswith("is not a history of this suite: ")


def test_a_file_that_is_not_regular_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="it is a directory"):
        document.read(tmp_path)
    with pytest.raises(HarnessError, match="it is no regular file"):
        document.read(Path("/dev/zero"))


def test_operations_removed_from_a_minimal_history_are_no_inconsistency() -> None:
    """The producer was left out; the suite skipped what referred to it when it performed the rest, and said so."""
    shortened = sample()
    steps = shortened["steps"]
    assert steps.pop(1)["operation"]["op"] == "OpenProducer"
    history = msgspec.convert(shortened, History)
    assert (nonsense(history) or "").endswith("makes the session 's1'")
    for step in steps:
        if step["operation"].get("session") == "s1":
            step["outcome"] = {"outcome": "Skipped", "why": "there is no such session"}
    del shortened["violation"]
    assert nonsense(msgspec.convert(shortened, History)) is None


@settings(max_examples=400)
@given(st.data())
def test_a_modified_history_is_refused_or_reported(data: st.DataObject) -> None:
    """With any values in its fields there is a sentence on it, or the history in words, and never an error."""
    raw = copy.deepcopy(data.draw(st.sampled_from(_RAW)))
    for _ in range(data.draw(st.integers(1, 3))):
        tamper(raw, data)
    try:
        history = msgspec.convert(raw, History)
    except msgspec.ValidationError:
        return
    if nonsense(history) is None:
        assert len(explain(history)) == len(history.steps)


_RAW = [raw for path in STORED if len((raw := json.loads(path.read_text()))["steps"]) <= 40]
