"""Verifies histories: reads them, has every invariant judged, and says rule by rule what came of it.

Broken before unknown before held, as for ``check``: what was found in the files that could be read is found, but
nothing is held over files that could not.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from conformance.harness_error import HarnessError
from conformance.history.about import About, ByRun
from conformance.known import KnownDeviation
from conformance.pipeline.explaining import known_of_runs, largest_bytes_of_runs
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.opening import NOT_ALL_ROWS
from conformance.pipeline.files.persisting import persisted_after_of_runs_ns
from conformance.pipeline.files.reading import Files, OfNoTopic, examine, of_no_topic
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.judging import DAMAGED, EVENTS, MEMORY, TOPICS, UNJUDGED_AT_MOST, accounts_of
from conformance.pipeline.memory import failure
from conformance.pipeline.samples import Sample, alternating
from conformance.pipeline.topic import Fault, Setting
from conformance.verdicts import Held, NotExercised
from model.rules.catalogue import RULES, Rule

NEVER_PUT_TO_THE_TEST = "nothing in the histories puts it to the test"
NOT_READ = "not all of the histories could be read"
NOT_DECIDED = "no invariant over histories decides it"
NO_RELEASE = "the histories do not say which release they are of"

RUNS_NAMED_AT_MOST = 5

CASES_AT_MOST = 100
"""How many cases of one invariant are kept, and of each known deviation; all are counted."""

DAMAGED_AT_MOST = 100
"""How many files may turn out to be damaged while they are read; each that Spark sorts costs another pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCase:
    """One case in which an invariant did not hold, with the events that show it, as they are in the files."""

    invariant: str
    run: str
    cluster: str
    topic: str
    fault: str
    """The one that began last before it, if one did."""
    because: str
    deviation: str | None
    """The known deviation that explains it, if one does."""
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The rule was broken: how often for no known reason, and by each known deviation; some cases are shown."""

    rule: Rule
    exercised: int
    """How many checks could have failed: those that known deviations explain are not counted."""
    times: int
    topics: int
    """In how many topics it was broken for no known reason; or at all, if known deviations explain all of it."""
    explained: dict[str, int]
    cases: tuple[ReportedCase, ...]

    @property
    def excused(self) -> int:
        """How often known deviations explain that it broke."""
        return sum(self.explained.values())

    @property
    def is_known(self) -> bool:
        """Whether known deviations explain all of it."""
        return not self.times


_Read = TypeVar("_Read")

Verified = Held | Broken | NotExercised
"""What histories can say of one rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCount:
    """How often one run put a rule to the test, how often it broke, and how much of that known deviations explain."""

    run: str
    rule: str
    judged: int = 0
    broken: int = 0
    explained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """How often a rule broke in a run with this fault as the last one before it."""

    run: str
    rule: str
    fault: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All that is to say: a verdict for each rule, what could not be read or judged, and by how many events."""

    rules: tuple[Verified, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """What fails nothing, but should be known."""
    events: int
    seconds: float
    demands_all: bool
    """Whether each rule was asked for by name, so that one that was not put to the test leaves the question open."""
    runs: tuple[RunCount, ...]
    by_fault: tuple[Anomalies, ...]
    files: Files
    """What was read."""

    @property
    def exit_status(self) -> int:
        """1: a rule was broken; 2: something could not be read, or was not put to the test; 0: what was asked held."""
        if any(isinstance(verdict, Broken) and not verdict.is_known for verdict in self.rules):
            return 1
        decided = [not isinstance(verdict, NotExercised) for verdict in self.rules]
        is_enough = all(decided) if self.demands_all else any(decided)
        return 0 if is_enough and not self.problems else 2


def decidable() -> tuple[Rule, ...]:
    """The rules that some invariant decides."""
    return tuple(RULES[name] for name in dict.fromkeys(invariant.rule for invariant in INVARIANTS))


def verify(
    spark: SparkSession,
    addresses: Sequence[str],
    setting: Setting,
    rules: Sequence[Rule] | None = None,
    *,
    known: Sequence[KnownDeviation] = (),
    release: str | None = None,
) -> Verification:
    """Verify histories; ``rules`` None is every rule that can be decided.

    ``known``: deviations that fail nothing where they are known of what a run ran against; ``release``: the broker's,
    of runs that do not tell it themselves.

    Raises:
        HarnessError: a folder cannot be listed, or Spark fails for another reason than a damaged file.
    """
    began = time.monotonic()
    files = examine(spark, addresses)
    about = about_runs(files, release)
    files, faults = faults_of(spark, files)
    files, rows = judged(spark, files, setting_of_runs(setting, about, known, faults))
    return folded(files, rows, rules, notes=untold(files, about) if known else (), began_s=began)


def setting_of_runs(
    setting: Setting, about: ByRun, known: Sequence[KnownDeviation], faults: tuple[Fault, ...]
) -> Setting:
    """The setting with what is told of the runs, and of their clusters."""
    return replace(
        setting,
        known=known_of_runs(known, about),
        faults=faults,
        told_ns=persisted_after_of_runs_ns(about),
        largest_bytes=largest_bytes_of_runs(about),
    )


def folded(
    files: Files,
    rows: Iterable[dict[str, Any]],
    rules: Sequence[Rule] | None,
    *,
    notes: tuple[str, ...],
    began_s: float,
) -> Verification:
    """The verdicts that the accounts of these files come to; ``began_s``: by the monotonic clock."""
    kept = _Kept(rows)
    asked = decidable() if rules is None else rules
    problems = (*files.problems, *kept.problems())
    return Verification(
        rules=tuple(kept.verdict(rule, is_whole=not problems) for rule in asked),
        problems=problems,
        notes=notes,
        events=kept.judged.get(EVENTS, 0),
        seconds=time.monotonic() - began_s,
        demands_all=rules is not None,
        runs=tuple(count for _, count in sorted(kept.runs.items())),
        by_fault=tuple(
            Anomalies(run=run, rule=rule, fault=fault, times=times)
            for (run, rule, fault), times in sorted(kept.by_fault.items())
        ),
        files=files,
    )


def about_runs(files: Files, release: str | None) -> dict[str, tuple[About, ...]]:
    """What each run ran against: what its files tell, or else the release that is given."""
    otherwise = () if release is None else (About(release=release),)
    return {run: files.about.get(run, otherwise) for run in files.runs}


def untold(files: Files, about: ByRun) -> tuple[str, ...]:
    """A sentence for the runs that no deviation is known of, because nobody says what they ran against."""
    runs = sorted(run for run in files.runs if not about[run])
    if not runs:
        return ()
    named = ", ".join(runs[:RUNS_NAMED_AT_MOST]) + (" …" if len(runs) > RUNS_NAMED_AT_MOST else "")
    return (f"{NO_RELEASE} ({named}): no known deviation explains anything there; --release says it",)


def faults_of(spark: SparkSession, files: Files) -> tuple[Files, tuple[Fault, ...]]:
    """The faults of whole clusters, and the files without those that turned out to be damaged."""
    files, found = _undamaged(spark, files, lambda files: of_no_topic(spark, files), OfNoTopic())
    return replace(files, problems=(*files.problems, *found.problems)), found.faults


def judged(spark: SparkSession, files: Files, setting: Setting) -> tuple[Files, list[dict[str, Any]]]:
    """The accounts of all that can be read, and the files without those that turned out to be damaged.

    Raises:
        HarnessError: Spark fails for another reason than a damaged file.
    """
    nothing: list[Row] = []
    files, rows = _undamaged(spark, files, lambda files: accounts_of(spark, files, setting).collect(), nothing)
    return files, [row.asDict(recursive=True) for row in rows]


def _undamaged(
    spark: SparkSession, files: Files, read: Callable[[Files], _Read], nothing: _Read
) -> tuple[Files, _Read]:
    """What is read of all files that can be read whole, and these; ``nothing`` where there is none."""
    for _ in range(DAMAGED_AT_MOST):
        if not (files.in_order or files.loose):
            return files, nothing
        try:
            return files, read(files)
        except (PySparkException, Py4JError, ConnectionError) as error:
            files = _without_damaged(spark, files, error)
    raise HarnessError(f"more than {DAMAGED_AT_MOST} files of the histories are damaged")


def _without_damaged(spark: SparkSession, files: Files, error: Exception) -> Files:
    """Leave out the file that Spark stumbled over; HarnessError where it was no file."""
    named = re.search(r"FAILED_READ_FILE[^\n]*?(\S+\.parquet)", str(error))
    damaged = named and next((file for file in (*files.in_order, *files.loose) if _is(file, named[1])), None)
    if not damaged:
        raise HarnessError(failure(spark, error, files.in_order)) from error
    return Files(
        in_order=tuple(file for file in files.in_order if file != damaged),
        loose=tuple(file for file in files.loose if file != damaged),
        problems=(*files.problems, f"{damaged.path} is damaged: {NOT_ALL_ROWS}"),
    )


def _is(file: File, told: str) -> bool:
    """Whether a message means this file, however it writes its address."""
    return re.sub(r"^\w+:/*", "/", file.path) == re.sub(r"^\w+:/*", "/", told)


class _Kept:
    """The accounts of all partitions, added up."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.judged: dict[str, int] = {}
        self.runs: dict[tuple[str, str], RunCount] = {}
        self.by_fault: Counter[tuple[str, str, str]] = Counter()
        self.broken: Counter[str] = Counter()
        self.explained: dict[str, Counter[str]] = defaultdict(Counter)
        self.topics: dict[str, Counter[str | None]] = defaultdict(Counter)
        self.unread: dict[str, list[str]] = defaultdict(list)
        self.cases: dict[tuple[str, str | None], Sample[ReportedCase]] = defaultdict(lambda: Sample(CASES_AT_MOST))
        for row in rows:
            name = row["invariant"]
            if name == TOPICS:
                self.topics[row["rule"]][None] += row["broken"]
                self.topics[row["rule"]].update({one["deviation"]: one["times"] for one in row["explained"]})
                continue
            self._count(row)
            self.judged[name] = self.judged.get(name, 0) + row["judged"]
            self.broken[name] += row["broken"]
            for one in row["explained"]:
                self.explained[name][one["deviation"]] += one["times"]
            for case in row["cases"]:
                if name in (DAMAGED, MEMORY):
                    damaged = f"{case['topic']} is damaged: {case['because']}"
                    self.unread[name].append(damaged if name == DAMAGED else case["because"])
                else:
                    path = tuple(case[part] for part in ("run", "fault", "topic", "cluster", "because"))
                    self.cases[name, case["deviation"]].offer(path, partial(_shown, name, case))

    def _count(self, row: dict[str, Any]) -> None:
        """Add to what is counted run by run."""
        if not row["rule"]:
            return
        run, rule = row["run"], row["rule"]
        explained = sum(one["times"] for one in row["explained"])
        before = self.runs.get((run, rule), RunCount(run=run, rule=rule))
        self.runs[run, rule] = RunCount(
            run=run,
            rule=rule,
            judged=before.judged + row["judged"],
            broken=before.broken + row["broken"],
            explained=before.explained + explained,
        )
        for one in row["by_fault"]:
            self.by_fault[run, rule, one["fault"]] += one["times"]

    def problems(self) -> tuple[str, ...]:
        """Damaged files; events that could not be judged, a sentence for each way, with one of each named."""
        unjudged = self.unread[MEMORY][:UNJUDGED_AT_MOST]
        if self.broken[MEMORY] > len(unjudged):
            unjudged.append(f"memory ran out at {self.broken[MEMORY]} topics in all")
        damaged = self.unread[DAMAGED][:DAMAGED_AT_MOST]
        sentences: dict[str, str] = {}
        for case in self.cases[EVENTS, None]:
            event = case.events[0]
            where = f"a {event['kind']} with outcome {event['outcome']} in topic {case.topic} of run {case.run}"
            sentences.setdefault(case.because, f"{case.because}: {where}")
        number = self.broken[EVENTS]
        strange = [f"{sentence} ({number} events in all cannot be judged)" for sentence in sentences.values()]
        return (*damaged, *unjudged, *strange)

    def verdict(self, rule: Rule, *, is_whole: bool) -> Verified:
        """What all invariants of a rule together say."""
        names = [invariant.name for invariant in INVARIANTS if invariant.rule == rule.id]
        judged = sum(self.judged.get(name, 0) for name in names)
        broken = sum(self.broken[name] for name in names)
        if broken:
            explained = sum((self.explained[name] for name in names), Counter[str]())
            reasons = (None, *explained)
            cases = [
                case
                for reason in reasons
                for case in alternating(self.cases[name, reason] for name in names if (name, reason) in self.cases)
            ]
            times = broken - explained.total()
            topics = self.topics[rule.id]
            return Broken(
                rule=rule,
                exercised=judged - explained.total(),
                times=times,
                topics=topics[None] if times else max(topics.values(), default=0),
                explained=dict(explained),
                cases=tuple(cases),
            )
        if not names:
            return NotExercised(rule=rule, why=NOT_DECIDED)
        if not is_whole:
            return NotExercised(rule=rule, why=NOT_READ)
        return Held(rule=rule, exercised=judged) if judged else NotExercised(rule=rule, why=NEVER_PUT_TO_THE_TEST)


def _shown(invariant: str, case: dict[str, Any]) -> ReportedCase:
    return ReportedCase(invariant=invariant, **{**case, "events": tuple(case["events"])})
