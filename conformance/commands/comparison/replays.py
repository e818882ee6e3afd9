"""How often a find comes back on a broker: the engine replays its history, and each replay is judged for it alone.

``reproduce``, ``bisect`` and ``check --baseline`` share it. All deviations of the model are tolerated during a replay,
so that another one, which comes first on some release, does not end it. Afterwards the model judges the recorded replay
once more, without the deviation that is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from conformance.commands.check import read_events
from conformance.commands.supervision.engine import Engine, Order, Settings
from conformance.commands.supervision.folders import report_folder
from conformance.commands.supervision.supervisor import Ending, supervise
from conformance.events import ExampleFinished, HarnessErrorHappened, RunStarted, RunStopped, ViolationFound
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Step, replay_file
from conformance.history.validation import nonsense
from conformance.known import shipped, unlike
from conformance.rates import NONE_YET, Counts
from conformance.report.progress import display
from model.events import Skipped
from model.example import Example
from model.explain import judge_step
from model.judgement import Broken
from model.rules.catalogue import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A broken rule with its history, and the name of the deviation that explains it, if it has one."""

    path: Path
    history: History
    rule: str
    deviation: str | None

    @classmethod
    def read(cls, path: Path) -> Find:
        """The find of a stored history; HarnessError if the file has none."""
        history = document.read(path)
        if (what := nonsense(history)) is not None:
            raise HarnessError(f"{path} {what}")
        broken = history.violation
        if broken is None:
            raise HarnessError(f"{path} broke no rule, so there is nothing that may come back")
        return cls(path=path, history=history, rule=broken.rule, deviation=broken.deviation)

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return self.rule if self.deviation is None else f"{self.deviation} ({self.rule})"

    @property
    def rate(self) -> float:
        """How often it came back where it was found, or a half if nobody replayed it; never 0 or 1."""
        replays = self.history.replays
        return 0.5 if replays is None else (replays.came_back + 1) / (replays.tries + 2)

    def is_in(self, replay: History) -> bool:
        """Whether it came back in a replay: by its name, or else as a violation of its rule that nothing explains."""
        if self.deviation is None:
            broken = replay.violation
            return broken is not None and (broken.rule, broken.deviation) == (self.rule, None)
        return first_broken(replay.steps, unlike(self.deviation)) == self.deviation


def first_broken(steps: tuple[Step, ...], known: frozenset[str]) -> str | None:
    """The deviation of the first broken rule, if there is one and it has a name."""
    state = Example(known=known)
    for step in steps:
        judged = judge_step(state, step)
        if isinstance(judged, Broken):
            return judged.deviation
        state = judged.state
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Where and how a history is replayed; ``defect``: a seeded one, or None."""

    broker: str
    lanes: int
    budget_s: float
    """How long one run of the engine may take."""
    settings: Settings = ()
    """On top of the history's own."""
    defect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of the replays on one broker.

    ``release``: the one that the broker reported. ``lacks``: why a step was performed in no replay that the recording
    has. ``failure``: why there are fewer replays than were asked for. ``others``: rules that other violations broke.
    """

    seen: Counts = NONE_YET
    release: str | None = None
    lacks: str | None = None
    failure: str | None = None
    others: tuple[str, ...] = ()
    shown: Path | None = None
    """The file of a replay in which it came back."""
    is_interrupted: bool = False
    skipped: frozenset[tuple[int, str]] | None = None
    """The steps that no replay performed, each with the reason; None without a replay."""

    def __add__(self, later: Replayed) -> Replayed:
        skipped = self.skipped if later.skipped is None else later.skipped
        if self.skipped is not None and skipped is not None:
            skipped = self.skipped & skipped
        return Replayed(
            seen=self.seen + later.seen,
            release=later.release or self.release,
            lacks=_lack(skipped),
            failure=later.failure,
            others=tuple(dict.fromkeys((*self.others, *later.others))),
            shown=self.shown or later.shown,
            is_interrupted=later.is_interrupted,
            skipped=skipped,
        )


def replays(find: Find, times: int, on: Conditions, engine: Engine, folder: Path, *, err: Console) -> Replayed:
    """Replay a find so often on one new broker, and count how often it came back.

    ``folder``: a new one of the run, in the folder of the command. A broker that cannot be had, that lacks a setting or
    does not start is a ``failure``.
    """
    folder = report_folder(folder)
    history = find.history
    settings = tuple({**history.settings, **dict(on.settings)}.items())
    try:
        engine.demand(on.broker, settings, history.base, history.size)
        engine.obtain(on.broker, engine.security)
    except HarnessError as error:
        return Replayed(failure=str(error))
    order = Order(
        broker=on.broker,
        seed=history.seed,
        budget_s=on.budget_s,
        rules=(RULES[find.rule],),
        report=folder,
        known=shipped(),
        defect=on.defect,
        settings=settings,
        choice=history.base,
        size=history.size,
        replay=(find.path.absolute(), times),
        lanes=on.lanes,
    )
    with display((RULES[find.rule],), budget_s=on.budget_s, console=err) as shown:
        ending = supervise(
            [*engine.command, *order.options()],
            folder=folder,
            budget_s=on.budget_s,
            watcher=shown,
            security=engine.security,
        )
    return _read(find, times, folder, is_interrupted=ending is Ending.INTERRUPTED)


def _read(find: Find, times: int, folder: Path, *, is_interrupted: bool) -> Replayed:
    release, failure, ended = None, None, 0
    for event in read_events(folder):
        match event:
            case RunStarted(release=of_broker):
                release = of_broker
            case ViolationFound() | ExampleFinished():
                ended += 1
            case HarnessErrorHappened(sentence=sentence) | RunStopped(sentence=sentence):
                failure = failure or sentence
            case _:
                pass
    files = [folder / replay_file(number) for number in range(1, ended + 1)]
    performed = [(file, document.read(file)) for file in files if file.exists()]
    back = [file for file, replay in performed if find.is_in(replay)]
    others = [replay.violation.rule for file, replay in performed if replay.violation is not None and file not in back]
    skipped = [skipped_in(find.history, replay) for _, replay in performed]
    always = frozenset.intersection(*skipped) if skipped else None
    return Replayed(
        seen=Counts(len(back), len(performed)),
        release=release,
        lacks=_lack(always),
        failure=None if len(performed) == times else failure or "it was not replayed so often within the budget",
        others=tuple(dict.fromkeys(others)),
        shown=next(iter(back), None),
        is_interrupted=is_interrupted,
        skipped=always,
    )


def skipped_in(history: History, replay: History) -> frozenset[tuple[int, str]]:
    """The steps of a history that a replay did not perform, each with the reason."""
    pairs = enumerate(zip(history.steps, replay.steps, strict=False))
    return frozenset(
        (at, again.outcome.why)
        for at, (step, again) in pairs
        if isinstance(again.outcome, Skipped) and not isinstance(step.outcome, Skipped)
    )


def _lack(skipped: frozenset[tuple[int, str]] | None) -> str | None:
    if not skipped:
        return None
    at, why = min(skipped)
    return f"step {at + 1} cannot be performed: {why}"
