"""``check --baseline``: replays each violation without a name on the baseline, too: is it new, or was it there before?

The candidate and the baseline take turns, under the same settings, failpoints and lanes, until their rates differ or do
not (:class:`conformance.rates.Comparison`). A false alarm of the suite comes back on both, so it is not new.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from conformance.commands.check import CheckOptions, read
from conformance.commands.comparison.replays import Conditions, Find, Replayed, replays
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.supervisor import events_file
from conformance.events import BaselineResult, ComparedWithBaseline, encode
from conformance.files import content
from conformance.harness_error import HarnessError
from conformance.history.document import Replays
from conformance.rates import Comparison, next_look
from conformance.report.console import say
from conformance.report.data import ReportData, ReportedFinding
from conformance.report.sentences.forms import CheckForm, RuleForm
from conformance.verdicts import times_exercised

RUN_AT_MOST_S = 300.0
"""How long one run of replays may take."""
LEAST_S = 300.0
"""All comparisons of a run may take as long as the run, and at least so long."""
IN_VAIN = 12
"""After so many replays that repeat nothing on the candidate, there is nothing to compare."""
BY_USER = "the comparison was interrupted"
"""Why it is undecided if the user ended it."""


_RESULTS: Final[dict[str | None, BaselineResult]] = {"higher": "new", "alike": "there-before"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What to compare with: a ``broker``, or the ``verdicts`` of an earlier check; ``defect``: one seeded there."""

    name: str
    verdicts: CheckForm | None = None
    defect: str | None = None

    @classmethod
    def read(cls, text: str) -> Baseline:
        """A file of verdicts, or else a broker."""
        if not text.endswith(".json"):
            return cls(name=text)
        try:
            return cls(name=text, verdicts=msgspec.json.decode(content(Path(text)), type=CheckForm))
        except msgspec.MsgspecError as error:
            raise HarnessError(f"{text} does not have the verdicts of a check: {error}") from error


def compare(
    baseline: Baseline, asked: CheckOptions, folder: Path, engine: Engine, *, out: Console, err: Console
) -> bool:
    """Compare each violation of the check in ``folder``, print the results, and add them to its events.

    Returns whether all were compared: False if the user interrupted it.
    """
    data = read(folder)
    new = [(rule, one) for rule, found in data.findings.items() for one in found if not one.finding.known]
    if baseline.verdicts is not None:
        say(out, _not_compared(data, baseline.verdicts, baseline.name))
    until = time.monotonic() + max(LEAST_S, asked.budget_s)
    with events_file(folder).open("ab") as events:
        for number, (rule, one) in enumerate(new, start=1):
            if baseline.verdicts is not None:
                its = {form.id: form for form in baseline.verdicts.rules}.get(rule)
                compared = _with_file(one, its, baseline, data)
            else:
                compared = _side_by_side(one, baseline, asked, folder / f"baseline-{number}", until, engine, err, data)
            events.write(encode(compared))
            say(out, f"{rule} is {compared.sentence}", style="bold")
            if compared.because == BY_USER:
                return False
    if not new:
        say(out, f"No violation without a name, so nothing to compare with {baseline.name}.")
    return True


def _side_by_side(
    one: ReportedFinding,
    baseline: Baseline,
    asked: CheckOptions,
    folder: Path,
    until: float,
    engine: Engine,
    err: Console,
    data: ReportData,
) -> ComparedWithBaseline:
    find = Find.read(one.replayed)
    candidate = Conditions(broker=asked.broker, lanes=asked.lanes, budget_s=RUN_AT_MOST_S, defect=asked.defect)
    before = replace(candidate, broker=baseline.name, defect=baseline.defect)
    folder.mkdir()
    mine, its, look = Replayed(), Replayed(), next_look(0)
    while look is not None:
        times = look - mine.seen.trials
        mine += replays(find, times, candidate, engine, folder / f"candidate-{look}", err=err)
        if not mine.is_interrupted:
            its += replays(find, times, before, engine, folder / f"baseline-{look}", err=err)
        because = _why_it_ends(mine, its, until)
        if because is not None or Comparison(mine.seen, its.seen).result is not None:
            break
        look = next_look(look)
    shown = Comparison(mine.seen, its.seen)
    is_told = mine.failure is None and its.failure is None and (its.lacks is None or its.seen.times > 0)
    result = _RESULTS.get(shown.result if is_told else None, "undecided")
    return ComparedWithBaseline(
        at_s=data.verdicts.seconds,
        original=one.finding.whole,
        baseline=baseline.name,
        result=result,
        candidate=Replays(tries=mine.seen.trials, came_back=mine.seen.times),
        before=Replays(tries=its.seen.trials, came_back=its.seen.times),
        p=round(shown.p, 6),
        interval=shown.interval,
        because=because or "",
    )


def _why_it_ends(mine: Replayed, its: Replayed, until: float) -> str | None:
    """Why no more replays are made, although the rates are not told apart."""
    if mine.is_interrupted or its.is_interrupted:
        return BY_USER
    if its.lacks is not None and not its.seen.times:
        return f"the baseline lacks what the history needs: {its.lacks}"
    if (failure := mine.failure or its.failure) is not None:
        return f"not all replays were performed: {failure}"
    if not mine.seen.times and mine.seen.trials >= IN_VAIN:
        return "it came back in no replay on the candidate"
    return "no time is left" if time.monotonic() >= until else None


def _with_file(
    one: ReportedFinding, its: RuleForm | None, baseline: Baseline, data: ReportData
) -> ComparedWithBaseline:
    violation = one.finding.violation
    is_same = (
        its is not None
        and its.verdict in ("violated", "suspected")
        and (its.deviation == violation.deviation or violation.deviation in its.met)
    )
    if its is None or its.verdict in ("not-exercised", "not-decidable", "model-only"):
        because = f"{violation.rule} was not exercised there"
    elif is_same:
        because = f"{violation.rule} was {its.verdict} there, too"
    else:
        because = (
            f"{violation.rule} was {its.verdict} there in {its.exercised} checks; only replays on a broker can tell"
        )
    return ComparedWithBaseline(
        at_s=data.verdicts.seconds,
        original=one.finding.whole,
        baseline=baseline.name,
        result="there-before" if is_same else "undecided",
        candidate=one.finding.replays,
        before=None if its is None else its.replays,
        because=because,
    )


def _not_compared(data: ReportData, its: CheckForm, name: str) -> str:
    """Which rules both runs exercised, and which only one of them did."""
    theirs = {form.id for form in its.rules if form.exercised}
    mine = {verdict.rule.id for verdict in data.verdicts.rules if times_exercised(verdict)}
    alone = [
        f"{who}: {', '.join(sorted(rules))}"
        for who, rules in (("here", mine - theirs), ("there", theirs - mine))
        if rules
    ]
    only = f" Exercised only {'; '.join(alone)}." if alone else ""
    return f"Both this run and {name} exercised {len(mine & theirs)} rules.{only}"
