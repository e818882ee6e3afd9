"""Verifies histories: reads them, has every invariant judged, and gives a verdict for each rule.

Violated is stronger than unknown, and unknown than held, as for ``check``. A violation in readable files counts, but no
rule is held if a file could not be read.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from conformance.history.about import About, ByRun
from conformance.known import KnownDeviation
from conformance.pipeline.explanations import known_of_runs, largest_bytes_of_runs
from conformance.pipeline.files.addresses import Storage
from conformance.pipeline.files.history_files import Files, OfNoTopic, examine
from conformance.pipeline.files.persistence import persisted_after_of_runs_ns
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import DAMAGED, EVENTS, MEMORY, TOPICS, UNJUDGED_AT_MOST
from conformance.pipeline.samples import Sample, alternating
from conformance.pipeline.topic import RecordedFault, VerificationSetting
from conformance.verdicts import Held, NotExercised
from model.rules.catalogue import RULES, Rule

NEVER_EXERCISED = "no event of the histories exercises it"
NOT_READ = "not all of the histories could be read"
NOT_DECIDED = "no invariant over histories decides it"
NO_RELEASE = "the histories do not have their release"

RUNS_NAMED_AT_MOST = 5

CASES_AT_MOST = 100
"""How many cases of one invariant and each known deviation are kept; all are counted."""

DAMAGED_AT_MOST = 100
"""How many files may turn out to be damaged; each costs another pass if Spark sorts it."""


class Engine(Protocol):
    """What reads the events of histories and has them judged."""

    @property
    def storage(self) -> Storage:
        """Where it finds files."""

    def of_no_topic(self, files: Files) -> tuple[Files, OfNoTopic]:
        """The events without a topic, and the files without those that turned out to be damaged."""

    def judged(self, files: Files, setting: VerificationSetting) -> tuple[Files, list[dict[str, Any]]]:
        """The results of all readable files, as rows, and the files without those that turned out to be damaged.

        Raises:
            HarnessError: it fails for another reason than a damaged file.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCase:
    """One case in which an invariant did not hold, with its events as they are in the files."""

    invariant: str
    run: str
    cluster: str
    topic: str
    fault: str
    """The last one that began before it."""
    because: str
    deviation: str | None
    """The known deviation that explains it."""
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenInvariant:
    """The rule was broken: how often for no known reason, how often by each known deviation, and cases."""

    rule: Rule
    exercised: int
    """How many checks could have failed, without those that known deviations explain."""
    times: int
    topics: int
    """In how many topics it was broken for no known reason; if there is none, in how many it was broken."""
    explained: dict[str, int]
    cases: tuple[ReportedCase, ...]

    @property
    def excused(self) -> int:
        """How often it was broken by known deviations."""
        return sum(self.explained.values())

    @property
    def is_known(self) -> bool:
        """Whether only known deviations broke it."""
        return not self.times


Verified = Held | BrokenInvariant | NotExercised
"""The verdict of histories on one rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCount:
    """How often one run exercised a rule, how often it broke, and how often by known deviations."""

    run: str
    rule: str
    judged: int = 0
    broken: int = 0
    explained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """How often a rule broke in a run after this fault."""

    run: str
    rule: str
    fault: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A verdict for each rule, the problems of files and events, and the number of events in files that were read."""

    rules: tuple[Verified, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """Remarks that fail nothing."""
    events: int
    seconds: float
    demands_all: bool
    """Whether the rules were named, so that one that was not exercised fails the run."""
    runs: tuple[RunCount, ...]
    by_fault: tuple[Anomalies, ...]
    files: Files
    """The files that were read."""

    @property
    def exit_status(self) -> int:
        """1: a rule was broken; 2: a file could not be read, or a rule was not exercised; 0: the rules held."""
        if any(isinstance(verdict, BrokenInvariant) and not verdict.is_known for verdict in self.rules):
            return 1
        decided = [not isinstance(verdict, NotExercised) for verdict in self.rules]
        is_enough = all(decided) if self.demands_all else any(decided)
        return 0 if is_enough and not self.problems else 2


def decidable() -> tuple[Rule, ...]:
    """The rules that some invariant decides."""
    return tuple(RULES[name] for name in dict.fromkeys(invariant.rule for invariant in INVARIANTS))


def verify(
    engine: Engine,
    addresses: Sequence[str],
    setting: VerificationSetting,
    rules: Sequence[Rule] | None = None,
    *,
    known: Sequence[KnownDeviation] = (),
    release: str | None = None,
) -> Verification:
    """Verify histories; ``rules`` None is every rule that can be decided.

    ``known``: deviations that fail nothing in runs of their releases; ``release``: that of runs that did not record it.

    Raises:
        HarnessError: a folder cannot be listed, or the engine fails for another reason than a damaged file.
    """
    began = time.monotonic()
    files = examine(engine.storage, addresses)
    about = about_runs(files, release)
    files, faults = faults_of(engine, files)
    files, rows = engine.judged(files, setting_of_runs(setting, about, known, faults))
    return folded(files, rows, rules, notes=without_release(files, about) if known else (), began_s=began)


def setting_of_runs(
    setting: VerificationSetting, about: ByRun, known: Sequence[KnownDeviation], faults: tuple[RecordedFault, ...]
) -> VerificationSetting:
    """The setting with the facts about the runs and their clusters."""
    return replace(
        setting,
        known=known_of_runs(known, about),
        faults=faults,
        persisted_after_by_run_ns=persisted_after_of_runs_ns(about),
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
    """The verdicts that follow from the results of these files; ``began_s``: by the monotonic clock."""
    kept = _Kept(rows)
    asked = decidable() if rules is None else rules
    problems = (*files.problems, *kept.problems())
    return Verification(
        rules=tuple(kept.verdict(rule, is_whole=not problems) for rule in asked),
        problems=problems,
        notes=notes,
        events=sum(file.events for file in files.all if file.path not in kept.damaged),
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
    """The releases, clients and settings of each run: from its files, or else the given release."""
    otherwise = () if release is None else (About(release=release),)
    return {run: files.about.get(run, otherwise) for run in files.runs}


def without_release(files: Files, about: ByRun) -> tuple[str, ...]:
    """A note on the runs without a release, for which no deviation is known."""
    runs = sorted(run for run in files.runs if not about[run])
    if not runs:
        return ()
    named = ", ".join(runs[:RUNS_NAMED_AT_MOST]) + (" …" if len(runs) > RUNS_NAMED_AT_MOST else "")
    return (f"{NO_RELEASE} ({named}): no deviation is known there; --release names it",)


def faults_of(engine: Engine, files: Files) -> tuple[Files, tuple[RecordedFault, ...]]:
    """The faults of whole clusters, and the files without damaged ones."""
    files, found = engine.of_no_topic(files)
    return replace(files, problems=(*files.problems, *found.problems)), found.faults


class _Kept:
    """The sum of the results of all partitions."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.judged: dict[str, int] = {}
        self.runs: dict[tuple[str, str], RunCount] = {}
        self.by_fault: Counter[tuple[str, str, str]] = Counter()
        self.broken: Counter[str] = Counter()
        self.explained: dict[str, Counter[str]] = defaultdict(Counter)
        self.topics: dict[str, Counter[str | None]] = defaultdict(Counter)
        self.unread: dict[str, list[str]] = defaultdict(list)
        self.damaged: set[str] = set()
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
                    self.damaged |= {case["topic"]} if name == DAMAGED else set()
                else:
                    path = tuple(case[part] for part in ("run", "fault", "topic", "cluster", "because"))
                    self.cases[name, case["deviation"]].offer(path, partial(_shown, name, case))

    def _count(self, row: dict[str, Any]) -> None:
        """Add a result to the counts by run."""
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
        """Damaged files, topics that lacked memory, and unjudged events, with an example of each kind."""
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
        """The verdict of all invariants of a rule."""
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
            return BrokenInvariant(
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
        return Held(rule=rule, exercised=judged) if judged else NotExercised(rule=rule, why=NEVER_EXERCISED)


def _shown(invariant: str, case: dict[str, Any]) -> ReportedCase:
    return ReportedCase(invariant=invariant, **{**case, "events": tuple(case["events"])})
