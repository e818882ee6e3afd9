"""The verdicts as JSON, for programs: the form that the design fixes, and what else is worth having."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

import msgspec

from conformance.report.account import Account
from conformance.verdicts import Held, ModelOnly, NotExercised, RuleVerdict, Violated, times_exercised


def as_json(account: Account) -> dict[str, Any]:
    """The account of a run as one object.

    ``release``, ``seed``, ``rules`` (each with ``id``, ``verdict``, ``exercised``, ``deviation`` and ``history``),
    ``operations`` and ``seconds`` are always there, and ``clients`` (name to version); ``release`` is null for a run
    that never reached its broker, which has no clients either. A rule
    that was broken by nothing but known deviations is ``violated`` with ``known`` true. ``trouble`` lists what failed,
    in sentences, and ``unseen`` the known deviations that were not met.
    """
    verdicts = account.verdicts
    return {
        "release": verdicts.release,
        "clients": account.clients,
        "seed": account.seed,
        "rules": [_rule(verdict, account) for verdict in verdicts.rules],
        "operations": verdicts.operations,
        "seconds": round(verdicts.seconds, 3),
        "trouble": [trouble.sentence for trouble in verdicts.troubles],
        "unseen": [deviation.name for deviation in verdicts.unseen],
    }


def write(account: Account, path: Path) -> None:
    """Write it, indented for people, replacing what is there."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(account)), indent=2) + b"\n")


def _rule(verdict: RuleVerdict, account: Account) -> dict[str, Any]:
    violated = verdict if isinstance(verdict, Violated) else None
    told = {
        "id": verdict.rule.id,
        "verdict": _name(verdict),
        "exercised": times_exercised(verdict),
        "deviation": violated.deviation if violated else None,
        "history": account.history_of(violated) if violated else None,
    }
    return told | ({"known": violated.known, "met": violated.sightings} if violated else {})


def _name(verdict: RuleVerdict) -> str:
    match verdict:
        case Held():
            return "held"
        case Violated():
            return "violated"
        case NotExercised():
            return "not-exercised"
        case ModelOnly():
            return "model-only"
        case _:
            assert_never(verdict)
