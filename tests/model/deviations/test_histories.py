"""The stored history of each deviation, judged again without a broker: it breaks its rule unless it is known."""

from __future__ import annotations

from functools import cache

import pytest

from conformance.history import document
from conformance.history.document import History
from conformance.known import HISTORIES, unlike
from model.deviation import Deviation
from model.deviations import DEVIATIONS, EXPLANATIONS, Shadows
from model.judgement import Allowed, Broken
from tests.verdicts import judged

each = pytest.mark.parametrize(
    "deviation", [one for one in DEVIATIONS.values() if one.has_history], ids=lambda one: one.name
)


@cache
def history_of(name: str) -> History:
    return document.read(HISTORIES / f"{name}.json")


@each
def test_a_deviation_breaks_one_of_its_rules_if_only_the_others_are_known(deviation: Deviation) -> None:
    broken = judged(*history_of(deviation.name).steps, known=unlike(deviation.name))
    assert isinstance(broken, Broken)
    assert (broken.deviation, broken.side) == (deviation.name, deviation.side)
    assert broken.rule in (deviation.rule, *deviation.also)


@each
def test_a_known_deviation_breaks_no_rule(deviation: Deviation) -> None:
    allowed = judged(*history_of(deviation.name).steps, known=DEVIATIONS)
    assert isinstance(allowed, Allowed)
    assert deviation.name in allowed.deviations


SHADOWS = {name: one.shadows for name, one in EXPLANATIONS.items() if one.shadows is not None}


@pytest.mark.parametrize(("name", "shadows"), SHADOWS.items(), ids=SHADOWS)
def test_a_history_that_breaks_the_rule_nearby_in_another_way_breaks_it_with_all_deviations_known(
    name: str, shadows: Shadows
) -> None:
    changed = list(shadows(history_of(name).steps))
    assert changed
    assert [steps for steps in changed if not isinstance(judged(*steps, known=DEVIATIONS), Broken)] == []
