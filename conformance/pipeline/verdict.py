"""Verifies histories: reads them, has every invariant judged, and says rule by rule what came of it.

Broken before unknown before held, as for ``check``: what was found in the files that could be read is found, but
nothing is held over files that could not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.pipeline.invariants import INVARIANTS
from conformance.pipeline.judging import EVENTS, accounts
from conformance.pipeline.reading import File, Files, events_of, examine, faults_of
from conformance.pipeline.topic import Setting
from conformance.trouble import Trouble
from conformance.verdicts import Held, NotExercised
from model.catalogue import RULES, Rule

NEVER_PUT_TO_THE_TEST = "nothing in the histories puts it to the test"
NOT_READ = "not all of the histories could be read"
NOT_DECIDED = "no invariant over histories decides it"

CASES_AT_MOST = 20
"""How many cases of one invariant are kept; all are counted."""

DAMAGED_AT_MOST = 100
"""How many files may turn out to be damaged while they are read; each costs another pass over the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One case in which an invariant did not hold, with the events that show it, as they are in the files."""

    invariant: str
    run: str
    cluster: str
    topic: str
    because: str
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The rule was broken so many times; some cases are shown."""

    rule: Rule
    exercised: int
    times: int
    cases: tuple[Shown, ...]


Verified = Held | Broken | NotExercised
"""What histories can say of one rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All that is to say: a verdict for each rule, what could not be read or judged, and by how many events."""

    rules: tuple[Verified, ...]
    problems: tuple[str, ...]
    events: int
    seconds: float
    demands_all: bool
    """Whether each rule was asked for by name, so that one that was not put to the test leaves the question open."""

    @property
    def exit_status(self) -> int:
        """1: a rule was broken; 2: something could not be read, or was not put to the test; 0: what was asked held."""
        if any(isinstance(verdict, Broken) for verdict in self.rules):
            return 1
        held = [isinstance(verdict, Held) for verdict in self.rules]
        is_enough = all(held) if self.demands_all else any(held)
        return 0 if is_enough and not self.problems else 2


def decidable() -> tuple[Rule, ...]:
    """The rules that some invariant decides."""
    return tuple(RULES[name] for name in dict.fromkeys(invariant.rule for invariant in INVARIANTS))


def verify(
    spark: SparkSession, addresses: Sequence[str], setting: Setting, rules: Sequence[Rule] | None = None
) -> Verification:
    """Verify histories; ``rules`` None is every rule that can be decided.

    Raises:
        Trouble: a folder cannot be listed, or Spark fails for another reason than a damaged file.
    """
    began = time.monotonic()
    files, rows = _judged(spark, examine(spark, addresses), setting)
    kept = _Kept(rows)
    asked = decidable() if rules is None else rules
    problems = (*files.problems, *kept.problems())
    return Verification(
        rules=tuple(kept.verdict(rule, is_whole=not problems) for rule in asked),
        problems=problems,
        events=kept.judged.get(EVENTS, 0),
        seconds=time.monotonic() - began,
        demands_all=rules is not None,
    )


def _judged(spark: SparkSession, files: Files, setting: Setting) -> tuple[Files, list[dict[str, Any]]]:
    """The accounts of all that can be read, and the files without those that turned out to be damaged."""
    for _ in range(DAMAGED_AT_MOST):
        if not (files.in_order or files.loose):
            return files, []
        try:
            known = replace(setting, faults=faults_of(spark, files))
            rows = accounts(events_of(spark, files), known).collect()
            return files, [row.asDict(recursive=True) for row in rows]
        except (PySparkException, Py4JError) as error:
            files = _without_damaged(files, error)
    raise Trouble(f"more than {DAMAGED_AT_MOST} files of the histories are damaged")


def _without_damaged(files: Files, error: Exception) -> Files:
    """Leave out the file that Spark stumbled over; Trouble where it was no file."""
    named = re.search(r"FAILED_READ_FILE[^\n]*?(\S+\.parquet)", str(error))
    damaged = named and next((file for file in (*files.in_order, *files.loose) if _is(file, named[1])), None)
    if not damaged:
        raise Trouble(f"Spark failed: {str(error).strip().splitlines()[0]}") from error
    return Files(
        in_order=tuple(file for file in files.in_order if file != damaged),
        loose=tuple(file for file in files.loose if file != damaged),
        problems=(*files.problems, f"{damaged.path} is damaged: its end can be read, but not all of its rows"),
    )


def _is(file: File, told: str) -> bool:
    """Whether a message means this file, however it writes its address."""
    return re.sub(r"^\w+:/*", "/", file.path) == re.sub(r"^\w+:/*", "/", told)


class _Kept:
    """The accounts of all partitions, added up."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.judged: dict[str, int] = {}
        self.broken: dict[str, int] = {}
        self.cases: dict[str, list[Shown]] = {}
        for row in rows:
            name = row["invariant"]
            self.judged[name] = self.judged.get(name, 0) + row["judged"]
            self.broken[name] = self.broken.get(name, 0) + row["broken"]
            cases = self.cases.setdefault(name, [])
            room = CASES_AT_MOST - len(cases)
            cases.extend(_shown(name, case) for case in row["cases"][:room])

    def problems(self) -> tuple[str, ...]:
        """Events that could not be judged, a sentence for each way, with one of each named."""
        sentences: dict[str, str] = {}
        for case in self.cases.get(EVENTS, []):
            event = case.events[0]
            where = f"a {event['kind']} with outcome {event['outcome']} in topic {case.topic} of run {case.run}"
            sentences.setdefault(case.because, f"{case.because}: {where}")
        number = self.broken.get(EVENTS, 0)
        return tuple(f"{sentence} ({number} events in all cannot be judged)" for sentence in sentences.values())

    def verdict(self, rule: Rule, *, is_whole: bool) -> Verified:
        """What all invariants of a rule together say."""
        names = [invariant.name for invariant in INVARIANTS if invariant.rule == rule.id]
        judged = sum(self.judged.get(name, 0) for name in names)
        broken = sum(self.broken.get(name, 0) for name in names)
        if broken:
            cases = tuple(case for name in names for case in self.cases[name])
            return Broken(rule=rule, exercised=judged, times=broken, cases=cases)
        if not names:
            return NotExercised(rule=rule, why=NOT_DECIDED)
        if not is_whole:
            return NotExercised(rule=rule, why=NOT_READ)
        return Held(rule=rule, exercised=judged) if judged else NotExercised(rule=rule, why=NEVER_PUT_TO_THE_TEST)


def _shown(invariant: str, case: dict[str, Any]) -> Shown:
    return Shown(invariant=invariant, **{**case, "events": tuple(case["events"])})
