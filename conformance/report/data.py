"""The data of a report: the verdicts, the findings with their histories, and the commands that replay them.

It reads the files of histories once for all reports. A history that cannot be read is reported as such, and hides no
verdict.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from conformance.clients.versions import WIRE
from conformance.events import Stage
from conformance.files import is_file
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Replays
from conformance.history.validation import nonsense
from conformance.known import KnownDeviation
from conformance.report.sentences.lists import percent
from conformance.report.sentences.participants import CLIENTS
from conformance.report.sentences.words import StepInWords, explain
from conformance.verdicts import NAMES, Contradicted, Finding, RuleVerdict, Verdicts, name_of
from model.rules.catalogue import Rule

LABELS = tuple(name.replace("-", " ") for name in NAMES)
"""What verdicts are called in tables, in the order of a summary."""

FINDINGS_AT_MOST = 3
"""How many findings of one rule are reported with their histories; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFinding:
    """One finding with its history and the command that replays it; ``problem``: why the history cannot be read.

    ``is_stored``: the history is the suite's own of a known deviation, not one of this run.
    """

    finding: Finding
    path: Path
    history: History | None
    problem: str | None
    command: str
    replayed: Path
    """The file that ``command`` replays: the whole recording, if the history is a part that was not performed alone."""
    is_stored: bool = False

    @property
    def steps(self) -> tuple[StepInWords, ...]:
        """The history in words, step by step."""
        return explain(self.history) if self.history is not None else ()

    @property
    def replays(self) -> Replays | None:
        """How often it came back, according to the run or else to its file."""
        if self.finding.replays is None and self.history is not None:
            return self.history.replays
        return self.finding.replays

    @property
    def came_back(self) -> str:
        """The replays as half a sentence."""
        if self.replays is None:
            return f"it was not replayed{self._meanwhile}"
        rate = (
            f"; the rule was broken in {self.finding.rate}" if self.finding.is_suspected and self.finding.rate else ""
        )
        return f"{came_back(self.replays)}{rate}{self._meanwhile}"

    @property
    def _meanwhile(self) -> str:
        """The load of the machine, if something did not happen in time."""
        return "" if self.finding.load is None else f"; while it waited, {self.finding.load}"

    @property
    def shortened(self) -> tuple[str, ...]:
        """How the history was shortened, and how much of the recording it lacks, in sentences."""
        stages = tuple(_stage(stage) for stage in self.finding.stages)
        if self.history is None or not self.history.left_out:
            return stages
        steps = len(self.history.steps)
        return (
            *stages,
            f"These {steps} of {steps + self.history.left_out} recorded steps contradict the rule, with the faults "
            "before it.",
            f"Nothing shorter than the whole recording was performed and broke the rule: replay {self.replayed.name}.",
        )


def came_back(replays: Replays) -> str:
    """How often a violation came back, and in what part of all replays it does, as half a sentence."""
    rate = f"{replays.came_back} of {replays.tries} replays"
    return f"it came back in {rate}, 95 % interval {percent(replays.interval)}"


def _stage(stage: Stage) -> str:
    tried = f"{stage.candidates} {'part' if stage.candidates == 1 else 'parts'} tried"
    left = f"{stage.steps} {'step' if stage.steps == 1 else 'steps'}"
    match stage.name:
        case "recording":
            return f"Without a broker, in {stage.seconds:.1f} s: {left} of the recording left, {tried}."
        case "broker":
            return f"On the broker, in {stage.seconds:.1f} s: {left} left, {tried} in {stage.runs} runs."
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMet:
    """A known deviation that a run did not meet.

    It may be fixed, or no example triggered it. ``command`` replays its history, if it has one.
    """

    deviation: KnownDeviation
    command: str | None

    def __str__(self) -> str:
        what = f"The known deviation {self.deviation.name} ({self.deviation.rule}) was not seen in this run"
        if self.command is None:
            return f"{what}. It may be fixed, or no example triggered it."
        return f"{what}. It may be fixed, or no example triggered it. To replay its history:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """All that the reports of a run share; ``broker`` is the value of the option ``--broker``."""

    verdicts: Verdicts
    known: tuple[KnownDeviation, ...]
    findings: dict[str, tuple[ReportedFinding, ...]]
    broker: str
    seed: int
    budget_s: float
    defect: str | None
    command: str
    stored: dict[str, ReportedFinding] = field(default_factory=dict)
    """By its name, the suite's own history of each known deviation that was met."""

    @property
    def clients(self) -> dict[str, str]:
        """The versions of the clients by name; none if the broker never started."""
        started = self.verdicts.started
        clients = {} if started is None else started.clients
        return {CLIENTS.get(name, name): version for name, version in clients.items()}

    @property
    def released(self) -> dict[str, str]:
        """The same without the wire client."""
        return {name: version for name, version in self.clients.items() if name != CLIENTS[WIRE]}

    @property
    def substitutes(self) -> dict[str, str]:
        """By what is not published of an assembled release, what is used instead."""
        started = self.verdicts.started
        return {} if started is None else started.substitutes

    def deviation(self, name: str) -> KnownDeviation | None:
        """The known deviation of this name."""
        return next((deviation for deviation in self.known if deviation.name == name), None)

    def not_met(self) -> tuple[NotMet, ...]:
        """The known deviations that the run did not meet, though it exercised their rules."""
        return tuple(_not_met(deviation, self.broker) for deviation in self.verdicts.unseen)

    def history_of(self, verdict: Contradicted) -> Path | None:
        """The file of the history that shows a violation."""
        findings = self.findings.get(verdict.rule.id, ())
        return findings[0].path if findings else None


def reported_findings(
    verdicts: Verdicts, *, folder: Path, broker: str, client: str | None = None, connection: Sequence[str] = ()
) -> dict[str, tuple[ReportedFinding, ...]]:
    """The findings of each rule, the most important first, and a few of each rule at most.

    ``client``: the option ``--client``, if it was given. ``connection``: the options for TLS and authentication.
    """
    of_client = [*connection] if client is None else ["--client", client, *connection]
    return {
        verdict.rule.id: tuple(
            _reported(finding, folder, broker, of_client) for finding in verdict.by_weight[:FINDINGS_AT_MOST]
        )
        for verdict in verdicts.rules
        if isinstance(verdict, Contradicted)
    }


def stored_findings(
    verdicts: Verdicts,
    known: Sequence[KnownDeviation],
    *,
    broker: str,
    client: str | None = None,
    connection: Sequence[str] = (),
) -> dict[str, ReportedFinding]:
    """By its name, each known deviation that was tolerated, with the suite's own history of it."""
    met = {name for verdict in verdicts.rules if isinstance(verdict, Contradicted) for name in verdict.occurrences}
    of_client = [*connection] if client is None else ["--client", client, *connection]
    found = {}
    for deviation in known:
        if deviation.name not in met or deviation.history is None:
            continue
        path = _from_here(Path(deviation.history))
        try:
            history = document.read(path)
        except HarnessError:
            continue
        if history.violation is None:
            continue
        violation = history.violation.__replace__(deviation=deviation.name)
        found[deviation.name] = ReportedFinding(
            finding=Finding(machine=history.machine, violation=violation, history=str(path), operations=0, known=True),
            path=path,
            history=history,
            problem=None,
            command=_replay(path, broker, "--known", "none", *of_client),
            replayed=path,
            is_stored=True,
        )
    return found


def _reported(finding: Finding, folder: Path, broker: str, of_client: Sequence[str]) -> ReportedFinding:
    path = _from_here(_found(folder, finding.history))
    try:
        read = document.read(path)
        problem = nonsense(read)
        history = read if problem is None else None
    except HarnessError as harness_error:
        history, problem = None, str(harness_error)
    options = ["--defect", history.defect] if history is not None and history.defect is not None else []
    if finding.violation.deviation is not None:
        options += ["--known", "none"]  # a replay would tolerate it otherwise
    is_part = history is not None and history.left_out > 0
    replayed = _from_here(_found(folder, finding.whole)) if is_part else path
    command = _replay(replayed, broker, *options, *of_client)
    return ReportedFinding(
        finding=finding, path=path, history=history, problem=problem, command=command, replayed=replayed
    )


def _found(folder: Path, history: str) -> Path:
    """The file of a history: where the run wrote it, or beside the events if the folder has a new place."""
    path = folder / history
    beside_events = folder / path.name
    return beside_events if is_file(beside_events) and not is_file(path) else path


def _not_met(deviation: KnownDeviation, broker: str) -> NotMet:
    path = _from_here(Path(deviation.history)) if deviation.history is not None else None
    return NotMet(deviation=deviation, command=_replay(path, broker) if path is not None else None)


def _replay(path: Path, broker: str, *options: str) -> str:
    return shlex.join(["pulsar-conformance", "replay", str(path), "--broker", broker, *options])


def _from_here(path: Path) -> Path:
    """The path as short as it can be written from the working directory."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


def title(rule: Rule) -> str:
    """A rule's statement without the asterisks of the catalogue."""
    return rule.statement.replace("*", "")


def label(verdict: RuleVerdict) -> str:
    """The name of a verdict in tables."""
    return name_of(verdict).replace("-", " ")


def diagnosis(verdict: Contradicted, data: ReportData) -> str:
    """Why a rule is broken: by the worst finding, or else by each deviation that was met."""
    name = verdict.deviation
    if verdict.crashes:
        return " ".join(crash.sentence for crash in verdict.crashes[:FINDINGS_AT_MOST])
    if verdict.worst is not None:
        compared = verdict.worst.compared
        against = "" if compared is None else f". It is {compared.sentence.removesuffix('.')}"
        return verdict.worst.violation.because + (f" (deviation {name})" if name else "") + against
    return " ".join(_met(name, times, data) for name, times in verdict.occurrences.items())


def _met(name: str, times: int, data: ReportData) -> str:
    deviation = data.deviation(name)
    summary = deviation.summary.removesuffix(".") if deviation else name
    return f"{summary} (deviation {name}, seen {times} times)"
