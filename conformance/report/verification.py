"""The verdicts of ``verify`` on a terminal and as JSON, in the forms of ``check``."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_never

from rich.console import Console
from rich.text import Text

from conformance.pipeline.results import NO_FAULT
from conformance.pipeline.verdict import BrokenInvariant, ReportedCase, Verification, Verified
from conformance.report.console import say, show_table
from conformance.report.data import title
from conformance.report.sentences.forms import VerifiedRuleForm, VerifyForm, encode, utc
from conformance.report.sentences.lists import count, thousands, times
from conformance.verdicts import Held, NotExercised, VerdictName

CASES_AT_MOST = 3
"""How many cases of one rule the terminal shows; the JSON has more."""

LABELS = ("held", "violated", "known deviation", "not exercised")

_STYLES = {"held": "green", "violated": "bold red", "known deviation": "magenta", "not exercised": "yellow"}

_LEFT_OUT = {
    "run",
    "topic",
    "cluster",
    "kind",
    "outcome",
    "ledger",
    "entry",
    "batch_index",
    "invoked_ns",
    "completed_ns",
}
"""The fields of an event that its line or its case has in words."""


def show(verification: Verification, console: Console) -> None:
    console.print()
    events = f"{thousands(verification.events)} events"
    console.print(Text(f"{events} in {verification.seconds:.0f} s", style="bold"))
    show_table(
        console,
        [_row(verdict) for verdict in verification.rules],
        justify=("left", "left", "right", "right", "left"),
        headings=("Rule", "Verdict", "Exercised", "Excused", ""),
    )
    for verdict in verification.rules:
        if isinstance(verdict, BrokenInvariant):
            _show_broken(verdict, console)
    for problem in verification.problems:
        console.print()
        say(console, f"Harness error: {problem}.", style="yellow")
    for note in verification.notes:
        console.print()
        say(console, f"Note: {note}.", style="dim")
    console.print()
    counted = Counter(label(verdict) for verdict in verification.rules)
    verdicts = ", ".join(f"{counted[name]} {name}" for name in LABELS if counted[name])
    harness_error = ", with a harness error" if verification.problems else ""
    console.print(Text(f"{count(counted.total(), 'rule', 'rules')}: {verdicts}{harness_error}.", style="bold"))


def form(verification: Verification, *, command: str, when: datetime) -> VerifyForm:
    """The verdicts as of ``when``, in the form of ``check``."""
    return VerifyForm(
        date=utc(when),
        command=command,
        release=None,
        seed=None,
        exit_status=verification.exit_status,
        rules=[_rule(verdict) for verdict in verification.rules],
        operations=verification.events,
        seconds=round(verification.seconds, 3),
        harness_errors=list(verification.problems),
        notes=list(verification.notes),
    )


def write(verification: Verification, path: Path, *, command: str) -> None:
    """Write the JSON; an older file is replaced."""
    path.write_bytes(encode(form(verification, command=command, when=datetime.now(UTC))))


def event_in_words(event: dict[str, Any]) -> str:
    """One event in one line: kind, place, time, and all other fields."""
    where = ""
    if event["ledger"] is not None:
        batch = f":{event['batch_index']}" if event["batch_index"] >= 0 else ""
        where = f" at {event['ledger']}:{event['entry']}{batch}"
    began = "?" if event["invoked_ns"] is None else _seconds(event["invoked_ns"])
    rest = ", ".join(f"{name} {value}" for name, value in event.items() if value is not None and name not in _LEFT_OUT)
    when = f"{began} to {_seconds(event['completed_ns'])} s"
    return f"{event['kind']} ({event['outcome']}){where}, {when}" + (f"; {rest}" if rest else "")


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.6f}"


def _row(verdict: Verified) -> tuple[Text, ...]:
    exercised = 0 if isinstance(verdict, NotExercised) else verdict.exercised
    counts = (Text(str(number or "-")) for number in (exercised, verdict.excused))
    name = label(verdict)
    remark = Text(_remark(verdict), style="dim" if isinstance(verdict, Held) else "")
    return Text(verdict.rule.id), Text(name, style=_STYLES[name]), *counts, remark


def label(verdict: Verified) -> str:
    """The name of a verdict in tables."""
    return _name(verdict).replace("-", " ")


def _name(verdict: Verified) -> VerdictName:
    match verdict:
        case Held():
            return "held"
        case BrokenInvariant(is_known=True):
            return "known-deviation"
        case BrokenInvariant():
            return "violated"
        case NotExercised():
            return "not-exercised"
        case _:
            assert_never(verdict)


def _remark(verdict: Verified) -> str:
    match verdict:
        case Held():
            return title(verdict.rule)
        case BrokenInvariant():
            reasons = [] if verdict.is_known else [_times_in_topics(verdict)]
            reasons += [f"{name}: {times(number)}" for name, number in verdict.explained.items()]
            return f"{verdict.cases[0].because} ({', '.join(reasons)})"
        case NotExercised():
            return verdict.why
        case _:
            assert_never(verdict)


def _show_broken(verdict: BrokenInvariant, console: Console) -> None:
    console.print()
    say(console, f"{verdict.rule.id}: {title(verdict.rule)}", style=_STYLES[label(verdict)])
    for name, number in ((None, verdict.times), *verdict.explained.items()):
        shown = [case for case in verdict.cases if case.deviation == name][:CASES_AT_MOST]
        for case in shown:
            _show_case(case, console)
        if number > len(shown):
            kept = sum(case.deviation == name for case in verdict.cases)
            rest = f"; {kept} of all are in the JSON" if kept > len(shown) else ""
            console.print(Text(f"  … and {number - len(shown)} more{_of_deviation(name)}{rest}."))


def _times_in_topics(verdict: BrokenInvariant) -> str:
    return f"{times(verdict.times)}, in {count(verdict.topics, 'topic', 'topics')}"


def _show_case(case: ReportedCase, console: Console) -> None:
    say(console, f"{case.because} ({_where(case)}){_of_deviation(case.deviation)}:", indent=2)
    for event in case.events:
        say(console, event_in_words(event), indent=4)


def _of_deviation(name: str | None) -> str:
    return "" if name is None else f", the known deviation {name}"


def _where(case: ReportedCase) -> str:
    cluster = f", cluster {case.cluster}" if case.cluster else ""
    fault = "" if case.fault == NO_FAULT else f", after the fault {case.fault}"
    return f"run {case.run}, topic {case.topic}{cluster}{fault}"


def _rule(verdict: Verified) -> VerifiedRuleForm:
    plain = VerifiedRuleForm(
        id=verdict.rule.id,
        verdict=_name(verdict),
        exercised=0 if isinstance(verdict, NotExercised) else verdict.exercised,
        excused=verdict.excused,
        because=None if isinstance(verdict, Held) else _remark(verdict),
    )
    if not isinstance(verdict, BrokenInvariant):
        return plain
    return plain.__replace__(
        deviation=next(iter(verdict.explained), None) if verdict.is_known else None,
        met=verdict.explained,
        times=verdict.times,
        topics=verdict.topics,
        cases=[_case(case) for case in verdict.cases],
    )


def _case(case: ReportedCase) -> dict[str, Any]:
    names = ("invariant", "run", "cluster", "topic", "fault", "because", "deviation")
    said = {name: getattr(case, name) for name in names}
    events = [{name: value for name, value in event.items() if value is not None} for event in case.events]
    return {**said, "events": events}
