"""The verdicts of ``check`` as JSON, for programs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from conformance.events import ComparedWithBaseline, ProcessEnded
from conformance.files import write_whole
from conformance.report.data import ReportData, diagnosis
from conformance.report.sentences.forms import BaselineForm, CheckForm, EndedForm, RuleForm, encode, utc
from conformance.verdicts import (
    Contradicted,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    name_of,
    seconds_of,
    times_excused,
    times_exercised,
)


def form(data: ReportData, *, folder: Path, when: datetime) -> CheckForm:
    """The verdicts as of ``when``, for a file in ``folder``."""
    verdicts = data.verdicts
    return CheckForm(
        date=utc(when),
        command=data.command,
        broker=data.broker,
        release=verdicts.release,
        clients=data.clients,
        seed=data.seed,
        exit_status=verdicts.exit_status,
        rules=[_rule(verdict, data, folder) for verdict in verdicts.rules],
        operations=verdicts.operations,
        seconds=round(verdicts.seconds, 3),
        harness_errors=[harness_error.sentence for harness_error in verdicts.harness_errors],
        stopped=None if verdicts.stopped is None else verdicts.stopped.sentence,
        unseen=[deviation.name for deviation in verdicts.unseen],
        ended=[_ended(one) for one in verdicts.ended],
        load=verdicts.load,
        substitutes=data.substitutes,
        excused=list(verdicts.excused),
        stale=list(verdicts.stale),
    )


def write(data: ReportData, path: Path) -> None:
    write_whole(path, encode(form(data, folder=path.parent, when=datetime.now(UTC))))


def _ended(one: ProcessEnded) -> EndedForm:
    return EndedForm(
        process=one.process,
        of="release" if one.is_of_release else "suite",
        pid=one.pid,
        status=one.status,
        seconds=round(one.at_s, 3),
        because=one.sentence,
        log=one.log_tail.splitlines(),
    )


def _rule(verdict: RuleVerdict, data: ReportData, folder: Path) -> RuleForm:
    plain = RuleForm(
        id=verdict.rule.id,
        verdict=name_of(verdict),
        exercised=times_exercised(verdict),
        excused=times_excused(verdict),
        seconds=round(seconds_of(verdict), 3),
    )
    match verdict:
        case NotExercised(why=why) | NotDecidable(why=why):
            return plain.__replace__(because=why)
        case Contradicted():
            history, worst = data.history_of(verdict), verdict.worst
            first = next(iter(data.findings.get(verdict.rule.id, ())), None)
            part = None if first is None else first.history
            replays = None if worst is None else worst.replays
            return plain.__replace__(
                deviation=verdict.deviation,
                history=None if history is None else os.path.relpath(history, folder),
                replay=None if first is None else os.path.relpath(first.replayed, folder),
                because=diagnosis(verdict, data),
                met=verdict.occurrences,
                replays=replays,
                interval=None if replays is None else _rounded(replays.interval),
                rate=None if worst is None else worst.rate,
                left_out=0 if part is None else part.left_out,
                shortening=() if worst is None else worst.stages,
                overdue=worst is not None and worst.violation.is_overdue,
                load=None if worst is None else worst.load,
                baseline=None if worst is None or worst.compared is None else _baseline(worst.compared),
            )
        case _:
            return plain


def _baseline(compared: ComparedWithBaseline) -> BaselineForm:
    return BaselineForm(
        broker=compared.baseline,
        result=compared.result,
        candidate=compared.candidate,
        before=compared.before,
        p=compared.p,
        interval=None if compared.interval is None else _rounded(compared.interval),
        because=compared.because,
    )


def _rounded(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = interval
    return round(low, 4), round(high, 4)
