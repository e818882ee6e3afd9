"""A recovery that nobody awaits excuses a missing sequence id for a while, and not from then on."""

from __future__ import annotations

import pytest

from model.cursors.cursor import Interval
from model.deduplication.topic_observer import RECOVERY_MS
from model.deviations import DEVIATIONS
from model.deviations.deduplication import SECOND_RECOVERY_NOT_AWAITED
from model.example import Example, judge
from model.judgement import Allowed, Broken
from tests.judging import judged
from tests.notation import steps

LOADED_MS = 100.0
HISTORY = "t topic-on; p opens -1; q opens -1; p sends 1@0; q sends 1@1; t unloads; p opens 1; q opens -1"
"""After an unload one producer is let in, and then another one, whose sequence id is missing."""


def opened_after(wait_ms: float) -> Allowed[Example] | Broken:
    """What is judged if the second producer is let in so long after the first one."""
    *before, first, second = steps(HISTORY)
    verdict = judged(*before, known=DEVIATIONS)
    for happened, now_ms in ((first, LOADED_MS), (second, LOADED_MS + wait_ms)):
        assert isinstance(verdict, Allowed), verdict
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(now_ms, now_ms))
    return verdict


def test_soon_after_a_topic_is_loaded_a_missing_sequence_id_is_a_deviation() -> None:
    allowed = opened_after(RECOVERY_MS)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (SECOND_RECOVERY_NOT_AWAITED,)
    assert "DEDUP-12" in allowed.excused


@pytest.mark.parametrize("wait_ms", [RECOVERY_MS + 1, 60_000.0])
def test_a_recovery_that_is_over_excuses_no_missing_sequence_id(wait_ms: float) -> None:
    broken = opened_after(wait_ms)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-12", None)
