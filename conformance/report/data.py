"""The verdicts of ``check`` as JSON, for programs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from conformance.report.account import Account, because
from conformance.report.sentences.forms import CheckForm, RuleForm, encode, utc
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


def form(account: Account, *, folder: Path, when: datetime) -> CheckForm:
    """The account of a run as of ``when``, for a file in ``folder``."""
    verdicts = account.verdicts
    return CheckForm(
        date=utc(when),
        command=account.command,
        broker=account.broker,
        release=verdicts.release,
        clients=account.clients,
        seed=account.seed,
        exit_status=verdicts.exit_status,
        rules=[_rule(verdict, account, folder) for verdict in verdicts.rules],
        operations=verdicts.operations,
        seconds=round(verdicts.seconds, 3),
        harness_errors=[harness_error.sentence for harness_error in verdicts.harness_errors],
        unseen=[deviation.name for deviation in verdicts.unseen],
    )


def write(account: Account, path: Path) -> None:
    path.write_bytes(encode(form(account, folder=path.parent, when=datetime.now(UTC))))


def _rule(verdict: RuleVerdict, account: Account, folder: Path) -> RuleForm:
    told = RuleForm(
        id=verdict.rule.id,
        verdict=name_of(verdict),
        exercised=times_exercised(verdict),
        excused=times_excused(verdict),
        seconds=round(seconds_of(verdict), 3),
    )
    match verdict:
        case NotExercised(why=why) | NotDecidable(why=why):
            return told.__replace__(because=why)
        case Contradicted():
            history, worst = account.history_of(verdict), verdict.worst
            told_of = next(iter(account.stories.get(verdict.rule.id, ())), None)
            part = None if told_of is None else told_of.history
            replays = None if worst is None else worst.replays
            return told.__replace__(
                deviation=verdict.deviation,
                history=None if history is None else os.path.relpath(history, folder),
                because=because(verdict, account),
                met=verdict.occurrences,
                replays=replays,
                interval=None if replays is None else _rounded(replays.interval),
                rate=None if worst is None else worst.rate,
                left_out=0 if part is None else part.left_out,
                shortening=() if worst is None else worst.stages,
            )
        case _:
            return told


def _rounded(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = interval
    return round(low, 4), round(high, 4)
