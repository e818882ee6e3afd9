"""Makes one verdict for each rule from the events of a run, and the exit status from the verdicts.

The fold is pure: it depends only on the events, the wanted rules and the known deviations, so a run can be judged again
from the file of its events.

The exit status is the smallest of these above zero:

1. The run found a violation; its history is on disk, even if the run failed later.
2. The run had a harness error, was stopped early, or did not exercise a rule that it should have decided. A rule that
   this deployment cannot exercise is *not decidable*, and counts here only if the user named it by id.
3. A violation is only *suspected*: it came back in none of at least thirty replays; or it is overdue (something did not
   happen before a wait ended), and came back in no replay, however few there were, because a slow machine looks the
   same. A gate that accepts this must not accept an unfinished run.
   With a baseline, it is suspected instead if the comparison is undecided, and fails nothing if the baseline has it.
4. Otherwise 0: every wanted rule was exercised and held. A *known* deviation is reported apart and fails nothing.

A rule that the client is listed to break (``--known-failing``, ``--known-flaky``) fails nothing if it is broken. If a
known failure held instead, its list is stale, and the status is 1.

A process of the release that ended although the suite did not end it breaks SERVE-02, and this is certain: it needs no
replay. A process of the suite that ended so is a harness error.

A run without its last event was killed or failed, which is a harness error. A tolerated deviation is known only on the
releases that list it; on any other it counts as a violation. No verdict depends on text or logs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never, get_args

from conformance.events import (
    AnyEvent,
    ComparedWithBaseline,
    ExampleFinished,
    HarnessErrorHappened,
    LoadMeasured,
    NotExercisable,
    Phase,
    ProcessEnded,
    ReplayedSoundly,
    RunAsked,
    RunFinished,
    RunStarted,
    RunStopped,
    Stage,
    ViolationFound,
    ViolationMinimised,
)
from conformance.history.document import Replays, Violation
from conformance.known import KnownDeviation
from conformance.known.failures import NO_FAILURES, KnownFailures
from conformance.load import Load, over
from model.rules.catalogue import RULES, Decided, Rule

NEVER_REACHED = "no example exercised it within the budget"
"""Why a rule was not exercised if the run gives no other reason."""

ENDED_EARLY = "the run ended before an example exercised it"
"""The same after a harness error."""

ALL_EXCUSED = "none of its checks could have failed, they were all excused"
"""The same if examples reached the rule, but all of its checks were excused."""

OF_CRASHES = "SERVE-02"
"""The rule that a process of the release breaks by its end: it closes the connections of clients for no reason."""

AFTER_STEP_S = 5.0
"""How long the end of an example may take after the step that broke a rule."""

UNFINISHED = "The run is not complete: it was killed, or is still running."
"""The harness error of a run without its last event and without another harness error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many examples of a run broke a rule in one way, of those that checked it."""

    broke_in: int
    checked_in: int

    def __str__(self) -> str:
        return f"{self.broke_in} of {self.checked_in} examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation: its machine, the file of its shortest history, how often it came back.

    ``whole``: the file of the whole history. ``stages``: how it was shortened. ``load``: that of the machine while the
    step waited that broke the rule, if it did.
    """

    machine: str
    violation: Violation
    history: str
    operations: int
    replays: Replays | None = None
    rate: Rate | None = None
    steps: int | None = None
    known: bool = False
    whole: str = ""
    stages: tuple[Stage, ...] = ()
    load: Load | None = None
    compared: ComparedWithBaseline | None = None
    """What came of the comparison with the baseline, if the run had one."""

    @property
    def is_excused(self) -> bool:
        """Whether it fails nothing: it is known, or the baseline has it, too."""
        return self.known or (self.compared is not None and self.compared.result == "there-before")

    @property
    def is_suspected(self) -> bool:
        """Whether it never came back, in enough replays to say so, or in any number if it was overdue.

        With a baseline: whether the comparison is undecided.
        """
        if self.compared is not None:
            return self.compared.result == "undecided"
        replays = self.replays or Replays(tries=0, came_back=0)
        return not self.known and (replays.are_in_vain or (self.violation.is_overdue and not replays.came_back))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The rule was exercised, and nothing contradicted it. ``excused``: how many checks of it could not have failed;
    ``seconds``: as :func:`seconds_of` says."""

    rule: Rule
    exercised: int
    excused: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """Something contradicted the rule: a violation with a history, a known deviation, or both.

    ``occurrences`` counts, for each deviation by name, how often the machines tolerated it. ``crashes``: the processes
    of the release that ended although the suite did not end them.
    """

    rule: Rule
    exercised: int
    findings: tuple[Finding, ...]
    crashes: tuple[ProcessEnded, ...] = ()
    excused: int = 0
    occurrences: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def worst(self) -> Finding | None:
        """The most important finding: one that came back and is not known, if there is one."""
        return next(iter(self.by_weight), None)

    @property
    def by_weight(self) -> list[Finding]:
        """The findings, those that came back before those that are suspected, and the known ones last."""
        return sorted(self.findings, key=lambda finding: (finding.is_excused, finding.is_suspected))

    @property
    def deviation(self) -> str | None:
        """The name of the deviation that contradicts the rule, if it has one."""
        if self.worst is not None:
            return self.worst.violation.deviation
        if self.crashes:
            return None
        return next(iter(self.occurrences), None)

    @property
    def history(self) -> str | None:
        """The file of its history."""
        return self.worst.history if self.worst is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated(Contradicted):
    """The rule was broken, and not by known deviations alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected(Contradicted):
    """Apart from known deviations, only violations broke the rule that never came back: in many replays, or in any if
    they were overdue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated(Contradicted):
    """Only known deviations of this release broke the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExercised:
    """No check of the run could have failed: this is not a pass."""

    rule: Rule
    why: str
    excused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDecidable:
    """This deployment cannot exercise the rule, which fails only if the user named it by id (``named``)."""

    rule: Rule
    why: str
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOnly:
    """No real broker can show the rule: exploration decides it, and it fails no run."""

    rule: Rule


RuleVerdict = Held | Violated | Suspected | Deviated | NotExercised | NotDecidable | ModelOnly
"""The verdict on one rule."""

VerdictName = Literal[
    "held", "violated", "suspected", "known-deviation", "not-exercised", "not-decidable", "model-only"
]
"""The names of verdicts, in the order of a summary."""

NAMES: tuple[VerdictName, ...] = get_args(VerdictName)


def name_of(verdict: RuleVerdict) -> VerdictName:
    match verdict:
        case Held():
            return "held"
        case Violated():
            return "violated"
        case Suspected():
            return "suspected"
        case Deviated():
            return "known-deviation"
        case NotExercised():
            return "not-exercised"
        case NotDecidable():
            return "not-decidable"
        case ModelOnly():
            return "model-only"
        case _:
            assert_never(verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The result of a run: a verdict for each wanted rule and each other broken one, and harness errors.

    ``unseen``: the known deviations that the run did not meet although it exercised their rule. They may still exist,
    because the run may not have created their conditions.
    """

    started: RunStarted | None
    rules: tuple[RuleVerdict, ...]
    unseen: tuple[KnownDeviation, ...]
    ended: tuple[ProcessEnded, ...] = ()
    """The processes that ended although the suite did not end them."""
    harness_errors: tuple[HarnessErrorHappened, ...]
    stopped: RunStopped | None
    """Why the run ended early, if that is not a harness error."""
    operations: int
    seconds: float
    load: Load | None = None
    """The load of the machine during the run."""
    failures: KnownFailures = NO_FAILURES
    """The rules that the client is known to break."""

    @property
    def release(self) -> str | None:
        """The release that the broker reported, or those of a rolling upgrade (``3.3.6,4.0.8``); None if the run did
        not get so far."""
        return ",".join(self.started.releases) if self.started is not None else None

    @property
    def mostly_excused(self) -> tuple[RuleVerdict, ...]:
        """The rules of which more than half of the checks were excused."""
        return tuple(verdict for verdict in self.rules if times_excused(verdict) > times_exercised(verdict))

    @property
    def exit_status(self) -> int:
        """The exit status, as described in the head of this module."""
        if self.stale or any(isinstance(verdict, Violated) for verdict in self._unexcused):
            return 1
        if self.harness_errors or self.stopped is not None or any(leaves_open(verdict) for verdict in self.rules):
            return 2
        return 3 if any(isinstance(verdict, Suspected) for verdict in self._unexcused) else 0

    @property
    def stale(self) -> tuple[str, ...]:
        """The rules that the client is listed to break, and that held."""
        return tuple(
            one.rule.id for one in self.rules if isinstance(one, Held) and one.rule.id in self.failures.failing
        )

    @property
    def excused(self) -> tuple[str, ...]:
        """The broken rules that the client is listed to break."""
        broken = (one.rule.id for one in self.rules if isinstance(one, Violated | Suspected))
        return tuple(rule for rule in broken if self.failures.excuse(rule) is not None)

    @property
    def _unexcused(self) -> list[RuleVerdict]:
        return [one for one in self.rules if one.rule.id not in self.excused]


def leaves_open(verdict: RuleVerdict) -> bool:
    """Whether the run should have decided the rule and did not."""
    return isinstance(verdict, NotExercised) or (isinstance(verdict, NotDecidable) and verdict.named)


def times_exercised(verdict: RuleVerdict) -> int:
    """How often the run exercised the rule."""
    return verdict.exercised if isinstance(verdict, Held | Contradicted) else 0


def times_excused(verdict: RuleVerdict) -> int:
    """How many checks of the rule were excused."""
    return verdict.excused if isinstance(verdict, Held | Contradicted | NotExercised) else 0


def seconds_of(verdict: RuleVerdict) -> float:
    """The duration of all examples that exercised the rule; an example counts in full for each of its rules."""
    return verdict.seconds if isinstance(verdict, Held | Contradicted) else 0.0


def verdicts(
    events: Iterable[AnyEvent],
    rules: Sequence[Rule],
    known: Sequence[KnownDeviation] = (),
    *,
    named: Collection[str] = (),
    failures: KnownFailures = NO_FAILURES,
) -> Verdicts:
    """Judge a run by its events.

    ``rules``: the wanted ones. ``named``: the ids that the user named. ``known``: the deviations that the engine
    tolerated, each of which is known only on the releases that list it. ``failures``: what the client is listed to
    break.
    """
    summary = _RunSummary()
    for event in events:
        summary.take(event)
    listed = {deviation.name: deviation for deviation in known}
    in_force = {name for name, deviation in listed.items() if summary.is_concerned_by(deviation)}
    harness_errors = summary.all_harness_errors(listed)
    return Verdicts(
        started=summary.started,
        rules=tuple(_judge(rule, summary, listed, in_force, named) for rule in _to_judge(rules, summary, listed)),
        unseen=tuple(
            listed[name]
            for name in sorted(in_force)
            if summary.exercised[listed[name].rule] and not summary.has_met(name)
        ),
        ended=tuple(summary.ended),
        harness_errors=harness_errors,
        stopped=summary.stopped,
        operations=summary.operations,
        seconds=summary.seconds,
        load=over(summary.loads),
        failures=failures,
    )


class _RunSummary:
    """The content of a run's events, gathered in one pass."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.finished = False
        self.seconds = 0.0
        self.operations = 0
        self.exercised: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.seconds_of: defaultdict[str, float] = defaultdict(float)
        self.met: Counter[str] = Counter()
        self.not_exercisable: dict[str, str] = {}
        self.harness_errors: list[HarnessErrorHappened] = []
        self.stopped: RunStopped | None = None
        self.ended: list[ProcessEnded] = []
        self.loads: list[Load] = []
        self._load_of: dict[str, Load | None] = {}
        self._found: list[ViolationFound] = []
        self._minimised: dict[str, ViolationMinimised] = {}
        self._compared: dict[str, ComparedWithBaseline] = {}

    def is_concerned_by(self, deviation: KnownDeviation) -> bool:
        return self.started is None or self.started.has(deviation)

    @property
    def violated(self) -> set[str]:
        broken = {rule for found in self._found for rule in self._rules_of(found)}
        return broken | ({OF_CRASHES} if self.crashes else set())

    def _rules_of(self, found: ViolationFound) -> tuple[str, ...]:
        """Its own rule, and those that its shortest history breaks besides."""
        return (found.violation.rule, *self._minimised.get(found.history, found).also)

    @property
    def crashes(self) -> tuple[ProcessEnded, ...]:
        """The processes of the release that ended although the suite did not end them."""
        return tuple(one for one in self.ended if one.is_of_release)

    def take(self, event: AnyEvent) -> None:
        self.seconds = max(self.seconds, event.at_s)
        match event:
            case RunStarted():
                self.started = event
            case Phase() | RunAsked():
                pass
            case ExampleFinished():
                self._take_example(event)
            case ViolationFound():
                self.operations = max(self.operations, event.operations)
                self._found.append(event)
                if event.violation.is_overdue:
                    self._load_of[event.history] = self._load_before(event)
            case ViolationMinimised():
                self._minimised[event.original] = event
            case ReplayedSoundly():
                pass
            case ComparedWithBaseline():
                self._compared[event.original] = event
            case NotExercisable():
                self.not_exercisable.setdefault(event.rule, event.why)
            case LoadMeasured(load=load):
                self.loads.append(load)
            case HarnessErrorHappened():
                self.harness_errors.append(event)
            case RunStopped():
                self.stopped = event
            case ProcessEnded():
                self.ended.append(event)
                if not event.is_of_release:
                    error = HarnessErrorHappened(at_s=event.at_s, sentence=event.sentence, log_tail=event.log_tail)
                    self.harness_errors.append(error)
            case RunFinished():
                self.finished = True
                self.operations = max(self.operations, event.operations)
            case _:
                assert_never(event)

    def _load_before(self, found: ViolationFound) -> Load | None:
        """The load while a step waited; its example ended a little later."""
        recent: list[Load] = []
        for load in reversed(self.loads):
            if sum(one.seconds for one in recent) >= found.took_s + AFTER_STEP_S:
                break
            recent.append(load)
        return over(recent)

    def _take_example(self, event: ExampleFinished) -> None:
        self.operations += event.operations
        self.exercised.update(event.exercised)
        self.excused.update(event.excused)
        self.met.update(event.deviations)
        for rule, times in event.exercised.items():
            if times:
                self.seconds_of[rule] += event.seconds

    def has_met(self, deviation: str) -> bool:
        return self.met[deviation] > 0 or any(found.violation.deviation == deviation for found in self._found)

    def findings(self, rule: str, in_force: set[str]) -> tuple[Finding, ...]:
        return tuple(self._finding(found, in_force) for found in self._found if rule in self._rules_of(found))

    def _finding(self, found: ViolationFound, in_force: set[str]) -> Finding:
        finding = Finding(
            machine=found.machine,
            violation=found.violation,
            history=found.history,
            whole=found.history,
            operations=found.operations,
            known=found.violation.deviation in in_force,
            load=self._load_of.get(found.history),
            compared=self._compared.get(found.history),
        )
        minimised = self._minimised.get(found.history)
        if minimised is None:
            return finding
        rate = Rate(broke_in=minimised.broke_in, checked_in=minimised.checked_in)
        return replace(
            finding,
            history=minimised.history,
            replays=Replays(tries=minimised.tries, came_back=minimised.came_back) if minimised.tries else None,
            rate=rate if minimised.checked_in else None,
            steps=minimised.steps,
            stages=minimised.stages,
        )

    def all_harness_errors(self, listed: dict[str, KnownDeviation]) -> tuple[HarnessErrorHappened, ...]:
        """The harness errors in the events, and those that follow from the events."""
        found = list(self.harness_errors)
        for name in sorted(set(self.met) - set(listed)):
            sentence = f"The engine tolerated the deviation {name}, which is not known for this run."
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=sentence))
        for rule in sorted(self.violated - set(RULES)):
            sentence = f"The engine reported a violation of {rule}, which is not in the catalogue."
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=sentence))
        if not self.finished and not self.harness_errors and self.stopped is None:
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=UNFINISHED))
        return tuple(found)


def _to_judge(rules: Sequence[Rule], summary: _RunSummary, listed: dict[str, KnownDeviation]) -> tuple[Rule, ...]:
    """The wanted rules, and then other rules that were broken."""
    asked = {rule.id for rule in rules}
    broken = summary.violated | {listed[name].rule for name in summary.met if name in listed}
    return (*rules, *(RULES[rule] for rule in sorted(broken - asked) if rule in RULES))


def _judge(
    rule: Rule, summary: _RunSummary, listed: dict[str, KnownDeviation], in_force: set[str], named: Collection[str]
) -> RuleVerdict:
    contradicted = _contradicted(rule, summary, listed, in_force)
    if contradicted is not None:
        return contradicted
    if rule.decided_by == (Decided.MODEL,):
        return ModelOnly(rule=rule)
    excused = summary.excused[rule.id]
    if exercised := summary.exercised[rule.id]:
        return Held(rule=rule, exercised=exercised, excused=excused, seconds=summary.seconds_of[rule.id])
    if (why := summary.not_exercisable.get(rule.id)) is not None:
        return NotDecidable(rule=rule, why=why, named=rule.id in named)
    why = ALL_EXCUSED if excused else NEVER_REACHED if summary.finished else ENDED_EARLY
    return NotExercised(rule=rule, why=why, excused=excused)


def _contradicted(
    rule: Rule, summary: _RunSummary, listed: dict[str, KnownDeviation], in_force: set[str]
) -> Violated | Suspected | Deviated | None:
    findings = summary.findings(rule.id, in_force)
    occurrences = {
        name: summary.met[name] for name in sorted(summary.met) if name in listed and listed[name].rule == rule.id
    }
    crashes = summary.crashes if rule.id == OF_CRASHES else ()
    if not (findings or occurrences or crashes):
        return None
    new = [finding for finding in findings if not finding.is_excused]
    kind: type[Violated | Suspected | Deviated]
    if crashes or not set(occurrences) <= in_force or any(not finding.is_suspected for finding in new):
        kind = Violated
    else:
        kind = Suspected if new else Deviated
    return kind(
        rule=rule,
        exercised=summary.exercised[rule.id],
        excused=summary.excused[rule.id],
        findings=findings,
        crashes=crashes,
        occurrences=occurrences,
        seconds=summary.seconds_of[rule.id],
    )
