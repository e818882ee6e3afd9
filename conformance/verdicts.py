"""Makes one verdict for each rule from the events of a run, and the exit status from the verdicts.

The fold is pure: it sees nothing but events, the rules that were asked for and the deviations that are known, so a run
can be judged again from the file of its events.

What wins, when several things happened; the smaller exit status above zero does:

1. A violation that was found is a violation, whatever failed afterwards: its history is on disk. Status 1.
2. HarnessError, and a rule that the run should have decided but did not exercise, leave the question open. Status 2. A
rule
   that this deployment cannot exercise is *not decidable*, and leaves the question open only if it was asked for by id.
3. A violation that came back in none of at least thirty replays is only *suspected*. Status 3: a gate
   that lets this pass must not let an unfinished run pass.
4. Everything asked for was exercised and held; a *known* deviation is reported apart and fails nothing. Status 0.

A run without its last event did not end by itself and is a harness error. A deviation that was tolerated is known only
on the releases that it is listed for; on any other it counts as a violation. No verdict is drawn here from text or
logs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never, get_args

from conformance.events import (
    AnyEvent,
    ExampleFinished,
    HarnessErrorHappened,
    NotExercisable,
    Phase,
    ReplayedSoundly,
    RunAsked,
    RunFinished,
    RunStarted,
    Stage,
    ViolationFound,
    ViolationMinimised,
)
from conformance.history.document import Replays, Violation
from conformance.known import KnownDeviation
from model.rules.catalogue import RULES, Decided, Rule

NEVER_REACHED = "no example exercised it within the budget"
"""Why a rule was not exercised when the run says nothing more about it."""

ENDED_EARLY = "the run ended before an example exercised it"
"""The same, when there was a harness error."""

ALL_EXCUSED = "none of its checks could have failed, they were all excused"
"""The same, when examples reached the rule, but no check of it could have failed."""

UNFINISHED = "The run is not complete: it was killed, or is still running."
"""The harness error of a run whose last event is missing and that tells of no other harness error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """In how many examples of a run a rule was broken in one way, of those that checked it."""

    broke_in: int
    checked_in: int

    def __str__(self) -> str:
        return f"{self.broke_in} of {self.checked_in} examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation as it was found: by which machine, the file of its shortest history, how often it came back.

    ``whole``: the file of the history as it was found. ``stages``: how it was shortened.
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

    @property
    def is_suspected(self) -> bool:
        """Whether it was replayed often enough, and never came back."""
        replays = self.replays
        return not self.known and replays is not None and replays.are_in_vain


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
    """Something contradicted the rule: found with a history, or a deviation that the model was told to know, or both.

    ``occurrences`` counts, for each deviation by name, how often the machines met it and went on.
    """

    rule: Rule
    exercised: int
    findings: tuple[Finding, ...]
    excused: int = 0
    occurrences: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def worst(self) -> Finding | None:
        """The finding to show where there is room for one: the surest one that is not known, if there is."""
        return next(iter(self.by_weight), None)

    @property
    def by_weight(self) -> list[Finding]:
        """The findings, those that came back before those that are suspected, and the known ones last."""
        return sorted(self.findings, key=lambda finding: (finding.known, finding.is_suspected))

    @property
    def deviation(self) -> str | None:
        """The deviation's name, where what contradicts the rule has one."""
        if self.worst is not None:
            return self.worst.violation.deviation
        return next(iter(self.occurrences), None)

    @property
    def history(self) -> str | None:
        """The file that shows it."""
        return self.worst.history if self.worst is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated(Contradicted):
    """The rule was broken, and not by known deviations alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected(Contradicted):
    """The rule was broken, known deviations apart, by nothing that came back in any of many replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated(Contradicted):
    """The rule was broken by nothing but known deviations of this release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExercised:
    """The run did nothing that could have broken the rule: this is not a pass."""

    rule: Rule
    why: str
    excused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDecidable:
    """This deployment cannot exercise the rule. It fails nothing, unless it was asked for by its id (``named``)."""

    rule: Rule
    why: str
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOnly:
    """No real broker can show the rule: exploration of the model decides it, and it blocks no run."""

    rule: Rule


RuleVerdict = Held | Violated | Suspected | Deviated | NotExercised | NotDecidable | ModelOnly
"""What a run can say of one rule."""

VerdictName = Literal[
    "held", "violated", "suspected", "known-deviation", "not-exercised", "not-decidable", "model-only"
]
"""What verdicts are called, in the order of a summary."""

NAMES: tuple[VerdictName, ...] = get_args(VerdictName)


def name_of(verdict: RuleVerdict) -> VerdictName:
    """What a verdict is called."""
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
    """All that a run has to say: a verdict for each rule asked for (and each other one that was broken), and a harness
    error.

    ``unseen`` names the known deviations of this release that the run exercised the rule of, but did not meet. That is
    no proof that they are gone: what shows one of them may not have come up.
    """

    started: RunStarted | None
    rules: tuple[RuleVerdict, ...]
    unseen: tuple[KnownDeviation, ...]
    harness_errors: tuple[HarnessErrorHappened, ...]
    operations: int
    seconds: float

    @property
    def release(self) -> str | None:
        """The release that the broker itself reported; None when the run never came so far."""
        return self.started.release if self.started is not None else None

    @property
    def mostly_excused(self) -> tuple[RuleVerdict, ...]:
        """The rules of which more than half of the checks were excused."""
        return tuple(verdict for verdict in self.rules if times_excused(verdict) > times_exercised(verdict))

    @property
    def exit_status(self) -> int:
        """0, 1, 2 or 3, as the head of this module says."""
        if any(isinstance(verdict, Violated) for verdict in self.rules):
            return 1
        if self.harness_errors or any(_leaves_open(verdict) for verdict in self.rules):
            return 2
        return 3 if any(isinstance(verdict, Suspected) for verdict in self.rules) else 0


def _leaves_open(verdict: RuleVerdict) -> bool:
    """Whether a rule that the run was to decide is not decided."""
    return isinstance(verdict, NotExercised) or (isinstance(verdict, NotDecidable) and verdict.named)


def times_exercised(verdict: RuleVerdict) -> int:
    """How often the run exercised the rule."""
    return verdict.exercised if isinstance(verdict, Held | Contradicted) else 0


def times_excused(verdict: RuleVerdict) -> int:
    """How many checks of the rule could not have failed, or failed by a known deviation."""
    return verdict.excused if isinstance(verdict, Held | Contradicted | NotExercised) else 0


def seconds_of(verdict: RuleVerdict) -> float:
    """How long the examples took that exercised the rule; an example counts in full for each rule that it exercises."""
    return verdict.seconds if isinstance(verdict, Held | Contradicted) else 0.0


def verdicts(
    events: Iterable[AnyEvent],
    rules: Sequence[Rule],
    known: Sequence[KnownDeviation] = (),
    *,
    named: Collection[str] = (),
) -> Verdicts:
    """Judge a run by its events.

    ``rules`` are those asked for, ``named`` the ids of those that were asked for by id; ``known`` the deviations that
    the engine was told to know, each of which counts as known only where its releases include the one that the run
    reports.
    """
    told = _Told()
    for event in events:
        told.take(event)
    listed = {deviation.name: deviation for deviation in known}
    in_force = {name for name, deviation in listed.items() if told.is_concerned_by(deviation)}
    harness_errors = told.all_harness_errors(listed)
    return Verdicts(
        started=told.started,
        rules=tuple(_judge(rule, told, listed, in_force, named) for rule in _to_judge(rules, told, listed)),
        unseen=tuple(
            listed[name] for name in sorted(in_force) if told.exercised[listed[name].rule] and not told.has_met(name)
        ),
        harness_errors=harness_errors,
        operations=told.operations,
        seconds=told.seconds,
    )


class _Told:
    """What the events told, gathered in one pass."""

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
        self._found: list[ViolationFound] = []
        self._minimised: dict[str, ViolationMinimised] = {}

    @property
    def release(self) -> str | None:
        return self.started.release if self.started is not None else None

    def is_concerned_by(self, deviation: KnownDeviation) -> bool:
        started = self.started
        return started is None or deviation.concerns(started.release, started.clients, started.settings)

    @property
    def violated(self) -> set[str]:
        return {found.violation.rule for found in self._found}

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
            case ViolationMinimised():
                self._minimised[event.original] = event
            case ReplayedSoundly():
                pass
            case NotExercisable():
                self.not_exercisable.setdefault(event.rule, event.why)
            case HarnessErrorHappened():
                self.harness_errors.append(event)
            case RunFinished():
                self.finished = True
                self.operations = max(self.operations, event.operations)
            case _:
                assert_never(event)

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
        return tuple(self._finding(found, in_force) for found in self._found if found.violation.rule == rule)

    def _finding(self, found: ViolationFound, in_force: set[str]) -> Finding:
        finding = Finding(
            machine=found.machine,
            violation=found.violation,
            history=found.history,
            whole=found.history,
            operations=found.operations,
            known=found.violation.deviation in in_force,
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
        """What was told, and what the events themselves give away."""
        found = list(self.harness_errors)
        for name in sorted(set(self.met) - set(listed)):
            sentence = f"The engine tolerated the deviation {name}, which is not known for this run."
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=sentence))
        for rule in sorted(self.violated - set(RULES)):
            sentence = f"The engine reported a violation of {rule}, which is not in the catalogue."
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=sentence))
        if not self.finished and not self.harness_errors:
            found.append(HarnessErrorHappened(at_s=self.seconds, sentence=UNFINISHED))
        return tuple(found)


def _to_judge(rules: Sequence[Rule], told: _Told, listed: dict[str, KnownDeviation]) -> tuple[Rule, ...]:
    """The rules asked for, and after them those that nobody asked for but that were broken all the same."""
    asked = {rule.id for rule in rules}
    broken = told.violated | {listed[name].rule for name in told.met if name in listed}
    return (*rules, *(RULES[rule] for rule in sorted(broken - asked) if rule in RULES))


def _judge(
    rule: Rule, told: _Told, listed: dict[str, KnownDeviation], in_force: set[str], named: Collection[str]
) -> RuleVerdict:
    contradicted = _contradicted(rule, told, listed, in_force)
    if contradicted is not None:
        return contradicted
    if rule.decided_by == (Decided.MODEL,):
        return ModelOnly(rule=rule)
    excused = told.excused[rule.id]
    if exercised := told.exercised[rule.id]:
        return Held(rule=rule, exercised=exercised, excused=excused, seconds=told.seconds_of[rule.id])
    if (why := told.not_exercisable.get(rule.id)) is not None:
        return NotDecidable(rule=rule, why=why, named=rule.id in named)
    why = ALL_EXCUSED if excused else NEVER_REACHED if told.finished else ENDED_EARLY
    return NotExercised(rule=rule, why=why, excused=excused)


def _contradicted(
    rule: Rule, told: _Told, listed: dict[str, KnownDeviation], in_force: set[str]
) -> Violated | Suspected | Deviated | None:
    findings = told.findings(rule.id, in_force)
    occurrences = {name: told.met[name] for name in sorted(told.met) if name in listed and listed[name].rule == rule.id}
    if not (findings or occurrences):
        return None
    new = [finding for finding in findings if not finding.known]
    kind: type[Violated | Suspected | Deviated]
    if not set(occurrences) <= in_force or any(not finding.is_suspected for finding in new):
        kind = Violated
    else:
        kind = Suspected if new else Deviated
    return kind(
        rule=rule,
        exercised=told.exercised[rule.id],
        excused=told.excused[rule.id],
        findings=findings,
        occurrences=occurrences,
        seconds=told.seconds_of[rule.id],
    )
