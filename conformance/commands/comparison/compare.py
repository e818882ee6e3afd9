"""``compare``: checks several brokers with the same seed, lanes and budget, and says what is different, rule by rule.

The first broker is compared with each later one. A row is a deviation, or the violations of a rule that have no name:
in how many of the examples that checked the rule it was met. Two rates differ if Fisher's exact test says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
from rich.console import Console

from conformance.brokers.settings import CHOICES, Choice
from conformance.commands.check import CheckOptions, check, read, read_events
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.events import AnyEvent, ExampleFinished, ViolationFound, ViolationMinimised
from conformance.files import write_whole
from conformance.harness_error import HarnessError
from conformance.rates import NONE_YET, Counts, fisher
from conformance.report.console import say
from conformance.report.data import ReportData
from conformance.report.docs.markdown import grid
from conformance.report.sentences.lists import count, thousands
from conformance.verdicts import name_of, times_exercised
from model.deviations import DEVIATIONS

SURE: Final = 0.01
"""The probability at most, in each row, of calling one rate higher than the other although it is not."""

Change = Literal["new", "more often", "perhaps new", "not comparable", "perhaps gone", "gone", "rarer", "same"]
WORSE: Final[frozenset[Change]] = frozenset({"new", "more often"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A broker to compare, with what is special about it; ``name``: as the user wrote it."""

    name: str
    broker: str
    client: str | None = None
    choice: Choice | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Side:
        """``BROKER``, then ``@client=VERSION``, ``@settings=shipped`` or ``@NAME=VALUE``, any number of times."""
        broker, *words = re.split(r"@(?=[A-Za-z_][\w.-]*=)", text)
        given = dict(word.split("=", 1) for word in words)
        client, choice = given.pop("client", None), given.pop("settings", None)
        chosen = next((one for one in CHOICES if one == choice), None)
        if chosen != choice:
            raise HarnessError(f"there are no settings {choice!r}; there are: {', '.join(CHOICES)}")
        return cls(name=text, broker=broker, client=client, choice=chosen, settings=tuple(given.items()))


def numbered(side: Side, number: int) -> Side:
    """The side with a number, if a broker is compared with itself."""
    return replace(side, name=f"{side.name} ({number})")


def exact(side: Side, broker: str) -> Side:
    """The side with the exact name of its broker."""
    return replace(side, broker=broker)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A deviation, or without one the violations of a rule that have no name, in the first run and in a later one.

    ``first`` and ``later``: in how many examples it was met, of those that checked its rule. ``p``: Fisher's
    probability, one-sided, of so great a difference if the rates are the same.
    """

    rule: str
    deviation: str | None
    change: Change
    first: tuple[int, int]
    later: tuple[int, int]
    p: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in each run, in their order: its verdict, and how often it was exercised."""

    rule: str
    verdicts: tuple[str, ...]
    exercised: tuple[int, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The result, as ``compare.json`` has it. ``rows``: for each later run, by its name."""

    suite: str
    seed: int
    budget_s: float
    lanes: int
    runs: tuple[str, ...]
    releases: tuple[str | None, ...]
    operations: tuple[int, ...]
    exit_statuses: tuple[int, ...]
    failures: tuple[str, ...]
    rules: tuple[Verdict, ...]
    rows: dict[str, tuple[Row, ...]]

    @property
    def exit_status(self) -> int:
        """1: something is new or more often; 2: a run failed; 3: something is perhaps new; 0: nothing of these."""
        changes = {row.change for rows in self.rows.values() for row in rows}
        if changes & WORSE:
            return 1
        if self.failures:
            return 2
        return 3 if "perhaps new" in changes else 0


def compare(
    sides: Sequence[Side],
    asked: CheckOptions,
    engine_of: dict[str, Engine],
    *,
    out: Console,
    err: Console,
) -> int:
    """Check each side, and write ``compare.md`` and ``compare.json``; returns the exit status.

    ``engine_of``: the engine for each side by its name. ``asked``: the options that all have in common.
    """
    for side in sides:
        demand_side(side, asked, engine_of[side.name])
    folder = report_folder(asked.report, "compare", *(side.name for side in sides))
    done: list[tuple[ReportData, dict[tuple[str, str | None], Counts], Counter[str]]] = []
    statuses = []
    with bugs_kept_in(folder):
        for number, side in enumerate(sides, start=1):
            say(err, f"{number} of {len(sides)}: {side.name}")
            status = check_side(side, asked, engine_of[side.name], folder / f"{number}", err=err)
            if status == INTERRUPTED:
                return INTERRUPTED
            statuses.append(status)
            data = read(folder / f"{number}")
            done.append((data, *met_in(read_events(folder / f"{number}"))))
    compared = _compared(sides, asked, done, statuses)
    write_whole(folder / "compare.json", msgspec.json.format(msgspec.json.encode(compared), indent=2) + b"\n")
    page = as_markdown(compared)
    write_whole(folder / "compare.md", page.encode())
    out.print(page, markup=False, soft_wrap=True)
    say(out, f"Written to {folder / 'compare.md'} and compare.json.")
    return compared.exit_status


def demand_side(side: Side, asked: CheckOptions, engine: Engine) -> None:
    """Fetch a side's broker before any is checked. Raises HarnessError if there is none, or not with its settings."""
    its = as_asked(side, asked)
    engine.demand(its.broker, its.settings, its.choice, its.size)
    engine.obtain(its.broker, engine.security)


def as_asked(side: Side, asked: CheckOptions) -> CheckOptions:
    """The options that all sides have in common, with what is special about one."""
    return replace(
        asked,
        broker=side.broker,
        client=side.client,
        choice=side.choice or asked.choice,
        settings=(*asked.settings, *side.settings),
    )


def check_side(side: Side, asked: CheckOptions, engine: Engine, folder: Path, *, err: Console) -> int:
    """Check one side in a folder of its own, with its table in a file beside that; returns the exit status."""
    its = replace(as_asked(side, asked), report=folder)
    with folder.with_name(f"{folder.name}.txt").open("w", encoding="utf-8") as table:
        return check(its, engine, out=Console(file=table), err=err)


def met_in(events: Iterable[AnyEvent]) -> tuple[dict[tuple[str, str | None], Counts], Counter[str]]:
    """In how many examples each deviation, and each rule's violations without one, were met; and those of each rule."""
    met: Counter[tuple[str, str | None]] = Counter()
    examples: Counter[str] = Counter()
    found: dict[str, tuple[str, str | None]] = {}
    broke_in: dict[str, int] = {}
    for event in events:
        match event:
            case ExampleFinished():
                names = [name for name, times in event.deviations.items() if times and name in DEVIATIONS]
                met.update((DEVIATIONS[name].rule, name) for name in names)
                checked = {rule for counts in (event.exercised, event.excused) for rule, n in counts.items() if n}
                examples.update(checked | {DEVIATIONS[name].rule for name in names})
            case ViolationFound(violation=violation, history=history):
                found[history] = violation.rule, violation.deviation
            case ViolationMinimised(original=original, broke_in=times):
                broke_in[original] = times
            case _:
                pass
    for history, what in found.items():
        met[what] += broke_in.get(history, 1)
        examples[what[0]] = max(examples[what[0]], met[what])
    return {what: Counts(times, examples[what[0]]) for what, times in met.items()}, examples


def change_of(first: Counts, later: Counts) -> tuple[Change, float | None]:
    """What changed between two runs, and how probable that is by chance."""
    if not (first.trials and later.trials):
        return "not comparable", None
    p = min(fisher(later, first), fisher(first, later))
    is_higher = later.rate > first.rate
    if p <= SURE:
        if is_higher:
            return ("more often" if first.times else "new"), p
        return ("rarer" if later.times else "gone"), p
    if first.times and later.times:
        return "same", p
    return ("perhaps new" if is_higher else "perhaps gone"), p


def _compared(
    sides: Sequence[Side],
    asked: CheckOptions,
    done: Sequence[tuple[ReportData, dict[tuple[str, str | None], Counts], Counter[str]]],
    statuses: Sequence[int],
) -> Compared:
    (_, first, first_examples), *_ = done
    rows = {}
    for side, (_, met, examples) in zip(sides[1:], done[1:], strict=True):
        rows[side.name] = rows_of(first, first_examples, met, examples)
    verdicts = [{verdict.rule.id: verdict for verdict in data.verdicts.rules} for data, _, _ in done]
    ids = [rule.id for rule in asked.rules]
    failures = [
        f"{side.name}: {error.sentence}"
        for side, (data, _, _) in zip(sides, done, strict=True)
        for error in data.verdicts.harness_errors
    ]
    return Compared(
        suite=version("pulsar-conformance"),
        seed=asked.seed,
        budget_s=asked.budget_s,
        lanes=asked.lanes,
        runs=tuple(side.name for side in sides),
        releases=tuple(data.verdicts.release for data, _, _ in done),
        operations=tuple(data.verdicts.operations for data, _, _ in done),
        exit_statuses=tuple(statuses),
        failures=tuple(failures),
        rules=tuple(
            Verdict(
                rule=rule,
                verdicts=tuple(name_of(its[rule]) for its in verdicts),
                exercised=tuple(times_exercised(its[rule]) for its in verdicts),
            )
            for rule in ids
        ),
        rows=rows,
    )


def rows_of(
    first: dict[tuple[str, str | None], Counts],
    first_examples: Counter[str],
    later: dict[tuple[str, str | None], Counts],
    later_examples: Counter[str],
) -> tuple[Row, ...]:
    """A row for all that was met in either run, what is worse first."""
    order: tuple[Change, ...] = get_args(Change)
    rows = []
    for rule, deviation in dict.fromkeys((*first, *later)):
        its = first.get((rule, deviation), replace(NONE_YET, trials=first_examples[rule]))
        other = later.get((rule, deviation), replace(NONE_YET, trials=later_examples[rule]))
        change, p = change_of(its, other)
        rows.append(
            Row(
                rule=rule,
                deviation=deviation,
                change=change,
                first=(its.times, its.trials),
                later=(other.times, other.trials),
                p=None if p is None else round(p, 6),
            )
        )
    return tuple(sorted(rows, key=lambda row: (order.index(row.change), row.rule, row.deviation or "")))


def as_markdown(compared: Compared) -> str:
    """The result for people, the differences first."""
    first = compared.runs[0]
    parts = [f"# {' and '.join(compared.runs)}", _facts(compared)]
    parts += [f"**A run failed.** {failure}" for failure in compared.failures]
    for name, rows in compared.rows.items():
        parts += [_sentence(compared, name, rows), _table(first, name, rows)]
    differing = [one for one in compared.rules if len(set(one.verdicts)) > 1]
    if differing:
        parts += ["Rules with different verdicts (and how often each was exercised):"]
        cells = [(one.rule, *map(_cell, one.verdicts, one.exercised)) for one in differing]
        parts += [grid(("rule", *compared.runs), cells)]
    return "\n\n".join(parts) + "\n"


def _cell(verdict: str, exercised: int) -> str:
    return f"{verdict.replace('-', ' ')} ({exercised})"


def _facts(compared: Compared) -> str:
    operations = ", ".join(f"{thousands(number)} operations" for number in compared.operations)
    return (
        f"Seed {compared.seed}, {compared.budget_s:g} s and {count(compared.lanes, 'lane', 'lanes')} each; "
        f"{operations}; pulsar-conformance {compared.suite}."
    )


def _sentence(compared: Compared, name: str, rows: Sequence[Row]) -> str:
    at = compared.runs.index(name)
    held = sum(one.verdicts[at] == "held" for one in compared.rules)
    worse = ", ".join(_name(row) for row in rows if row.change in WORSE) or "none"
    perhaps = ", ".join(_name(row) for row in rows if row.change == "perhaps new")
    more = f"; perhaps new, seen too seldom to tell: {perhaps}" if perhaps else ""
    rules = count(len(compared.rules), "rule", "rules")
    return f"**{name}**: {rules}, {held} held; new or more often than in {compared.runs[0]}: {worse}{more}."


def _table(first: str, name: str, rows: Sequence[Row]) -> str:
    cells = [
        (row.change, row.rule, _name(row), _of(row.first), _of(row.later), "" if row.p is None else f"{row.p:.2g}")
        for row in rows
    ]
    return grid(("change", "rule", "deviation", first, name, "p"), cells)


def _name(row: Row) -> str:
    return row.deviation or f"violation of {row.rule}"


def _of(counts: tuple[int, int]) -> str:
    times, trials = counts
    return f"{times} of {trials}" if trials else "not checked"
