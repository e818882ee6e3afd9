"""``judge``: judges the journals of a check again, without a broker, and compares with what the check itself said.

So nobody has to believe a result: the journals have every operation with its outcome, and the model decides again.
Replays and the candidates of a shortening are in the journals, too, so a run with violations has more checks there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from conformance.clients.versions import libraries_in
from conformance.commands.check import read_events
from conformance.events import AnyEvent, ExampleFinished, RunAsked, RunStarted, ViolationFound
from conformance.harness_error import HarnessError
from conformance.history.document import Step
from conformance.history.from_journal import examples_of
from conformance.known import KnownDeviation, by_library
from conformance.report.console import say, show_table
from conformance.report.sentences.lists import count, thousands
from model.deviations import DEVIATIONS
from model.example import Example
from model.explain import judge_step
from model.judgement import Broken
from model.rules.catalogue import CATALOGUE

DISAGREES = 2
"""The exit status if the journals do not show what the check said, or nothing can be judged."""


@dataclass(slots=True, kw_only=True)
class Judged:
    """What the journals show: checks by rule, deviations that were met, and each broken rule with its reason."""

    examples: int = 0
    operations: int = 0
    exercised: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    deviations: Counter[str] = field(default_factory=Counter)
    broken: dict[tuple[str, str | None], str] = field(default_factory=dict)

    def add(self, steps: Iterable[Step], known: frozenset[str]) -> None:
        """Judge one example."""
        self.examples += 1
        state = Example(known=known)
        for step in steps:
            self.operations += 1
            judged = judge_step(state, step)
            if isinstance(judged, Broken):
                self.broken.setdefault((judged.rule, judged.deviation), judged.because)
                return
            state = judged.state
            self.exercised.update(judged.exercised)
            self.excused.update(judged.excused)
            self.deviations.update(judged.deviations)


class JudgedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as ``judge --json`` has it; ``claimed``: how often the check says that it was exercised."""

    rule: str
    exercised: int
    excused: int
    claimed: int
    violations: tuple[str, ...] = ()


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A check whose journals were judged again; ``journals``: their SHA-256; ``disagreements``: sentences."""

    release: str
    seed: int
    examples: int
    operations: int
    journals: str
    deviations: dict[str, int]
    rules: tuple[JudgedRule, ...]
    disagreements: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """1: a rule is broken; 2: the check says something else, or nothing was exercised; 0: neither."""
        if any(rule.violations for rule in self.rules):
            return 1
        return DISAGREES if self.disagreements or not any(rule.exercised for rule in self.rules) else 0


def digest(folder: Path) -> str:
    """The SHA-256 of the journals of a check, in the order of their names."""
    hashed = hashlib.sha256()
    for journal in journals(folder):
        with journal.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()


def journals(folder: Path) -> list[Path]:
    """The journals of a check: of each lane, and of what is run alone."""
    return sorted(folder.glob("journal*.jsonl"))


def judge(folder: Path, known: tuple[KnownDeviation, ...] | None, *, out: Console, json: Path | None) -> int:
    """Judge the check in a folder again; returns the exit status. ``known``: None for those that the check tolerated.

    Raises:
        HarnessError: there are no events or journals of a check, or they cannot be read.
    """
    run = judged_again(folder, known)
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    _show(run, out)
    return run.exit_status


def judged_again(folder: Path, known: tuple[KnownDeviation, ...] | None = None) -> JudgedRun:
    """What the journals in a folder show, and how it differs from what the check said."""
    events = list(read_events(folder))
    asked = next((event for event in events if isinstance(event, RunAsked)), None)
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    if asked is None or started is None or not journals(folder):
        raise HarnessError(f"{folder} has no journal of a check that started its machines")
    tolerated = asked.known if known is None else known
    names = by_library([one.name for one in tolerated if started.has(one)], libraries_in(started.clients))
    judged = Judged()
    for journal in journals(folder):
        try:
            for _, steps in examples_of(journal):
                judged.add(steps, names)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HarnessError(f"{journal} is not a journal of this suite: {error}") from error
    return _run(started, judged, events, digest(folder), is_alike=known is None)


def _run(started: RunStarted, judged: Judged, events: Iterable[AnyEvent], of: str, *, is_alike: bool) -> JudgedRun:
    claimed: Counter[str] = Counter()
    found: set[str] = set()
    for event in events:
        match event:
            case ExampleFinished(exercised=exercised):
                claimed.update(exercised)
            case ViolationFound(violation=violation):
                found.add(violation.rule)
            case _:
                pass
    rules = tuple(
        JudgedRule(
            rule=rule.id,
            exercised=judged.exercised[rule.id],
            excused=judged.excused[rule.id],
            claimed=claimed[rule.id],
            violations=tuple(because for (broken, _), because in judged.broken.items() if broken == rule.id),
        )
        for rule in CATALOGUE
        if judged.exercised[rule.id] or judged.excused[rule.id] or claimed[rule.id] or rule.id in _broken(judged)
    )
    return JudgedRun(
        release=started.release,
        seed=started.seed,
        examples=judged.examples,
        operations=judged.operations,
        journals=of,
        deviations=dict(sorted(judged.deviations.items())),
        rules=rules,
        disagreements=tuple(_disagreements(rules, found)) if is_alike else (),
    )


def _broken(judged: Judged) -> set[str]:
    return {rule for rule, _ in judged.broken}


def _disagreements(rules: Iterable[JudgedRule], found: set[str]) -> Iterable[str]:
    """What the check says and its journals do not show, or the other way round."""
    for one in rules:
        if one.claimed > one.exercised:
            said = f"The check says that {one.rule} was exercised {one.claimed} times"
            yield f"{said}; its journals show {one.exercised}."
        if one.violations and one.rule not in found:
            yield f"The check reports no violation of {one.rule}; its journals show one."
        if one.rule in found and not one.violations:
            yield f"The check reports a violation of {one.rule}; its journals show none."


def _verdict(one: JudgedRule, deviated: set[str]) -> str:
    if one.violations:
        return "violated"
    if one.rule in deviated:
        return "known deviation"
    return "held" if one.exercised else "not exercised"


def _show(run: JudgedRun, out: Console) -> None:
    operations = f"{thousands(run.operations)} operations"
    examples = count(run.examples, "example", "examples")
    say(out, f"Pulsar {run.release}, seed {run.seed}: {operations} in {examples} were judged again.", style="bold")
    deviated = {DEVIATIONS[name].rule for name in run.deviations}
    show_table(
        out,
        [
            (
                Text(one.rule),
                Text(_verdict(one, deviated)),
                Text(str(one.exercised or "-")),
                Text(str(one.excused or "-")),
                Text("; ".join(one.violations)),
            )
            for one in run.rules
        ],
        justify=("left", "left", "right", "right", "left"),
        headings=("Rule", "Verdict", "Exercised", "Excused", ""),
        wrapped=True,
    )
    if run.deviations:
        say(out, f"Known deviations that were met: {', '.join(run.deviations)}.", style="magenta")
    for sentence in run.disagreements:
        say(out, sentence, style="yellow")
    say(out, f"SHA-256 of the journals: {run.journals}.")
