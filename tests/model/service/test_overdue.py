"""Which broken rules are overdue: those of what did not happen before a wait ended, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.history import document
from model.example import Example
from model.example.judge import judge
from model.judgement import Broken, overdue
from model.service.reasons import Reasons
from model.service.reasons import judge as judge_unexpected
from model.service.unexpected import Closed, ErrorAnswer, Overdue, Silence, Unexpected

STORED = Path(__file__).parents[3] / "conformance" / "known" / "histories"


def broken_by(unexpected: Unexpected) -> Broken:
    judged = judge_unexpected(unexpected, Reasons())
    assert isinstance(judged, Broken)
    return judged


@pytest.mark.parametrize(
    ("unexpected", "is_overdue"),
    [
        (Silence("binary", "Subscribe of c", "no answer in time"), True),
        (Overdue("SERVE-02", "no broker owns t within 30 s"), True),
        (ErrorAnswer("binary", "Subscribe of c", "ServiceNotReady", "loading"), True),
        (ErrorAnswer("binary", "Subscribe of c", "ServiceNotReady", "loading", is_last=False), False),
        (ErrorAnswer("admin", "GET stats", "503", "loading"), True),
        (ErrorAnswer("admin", "GET stats", "500", "NullPointerException"), False),
        (Closed("s", "the connection was closed"), False),
    ],
)
def test_a_missing_answer_is_overdue_and_a_wrong_one_is_not(unexpected: Unexpected, *, is_overdue: bool) -> None:
    assert broken_by(unexpected).is_overdue is is_overdue


def found() -> Iterator[tuple[str, Broken]]:
    """How the stored history of each deviation breaks its rule where no deviation is known."""
    for path in sorted(STORED.glob("*.json")):
        state = Example(known=frozenset())
        for step in document.read(path).steps:
            judged = judge(state, step.operation, step.outcome, step.late, step.at, step.unexpected)
            if isinstance(judged, Broken):
                yield path.stem, judged
                break
            state = judged.state


NOT_DISPATCHED = ("does not dispatch", "did not dispatch", "dispatches nothing", "permits, but does not receive")
TOO_MUCH = ("received the entry", "was stored again", "is let in", "as acknowledged for", "was redelivered")


def test_messages_that_do_not_arrive_are_overdue_and_those_that_must_not_arrive_are_not() -> None:
    of = dict(found())
    observed = {name: broken.because.partition(". ")[0] for name, broken in of.items()}
    missing = {name for name, because in observed.items() if any(words in because for words in NOT_DISPATCHED)}
    wrong = {name for name, because in observed.items() if any(words in because for words in TOO_MUCH)}
    assert len(missing) > 15
    assert len(wrong) > 5
    assert {name for name in missing if not of[name].is_overdue} == set()
    assert {name for name in wrong if of[name].is_overdue} == set()


def test_a_broken_rule_keeps_what_else_is_known_of_it() -> None:
    broken = Broken("SERVE-03", "nothing came", "leave-triggers-no-read", "broker")
    assert overdue(broken) == Broken("SERVE-03", "nothing came", "leave-triggers-no-read", "broker", is_overdue=True)
    assert overdue(None) is None
