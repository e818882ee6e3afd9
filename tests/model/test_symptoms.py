"""What a user sees of each deviation."""

from __future__ import annotations

import pytest

from model.deviation import Deviation
from model.deviations import DEVIATIONS
from model.deviations.symptoms import EXCEPTIONS, OF_RULES, SYMPTOMS, symptom_of
from model.rules.catalogue import RULES


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=lambda one: one.name)
def test_every_deviation_has_a_symptom(deviation: Deviation) -> None:
    assert symptom_of(deviation) in SYMPTOMS


def test_the_tables_name_only_rules_and_deviations_that_exist() -> None:
    assert OF_RULES.keys() <= RULES.keys()
    assert EXCEPTIONS.keys() <= DEVIATIONS.keys()


def test_an_exception_has_another_symptom_than_its_rule() -> None:
    assert [name for name, symptom in EXCEPTIONS.items() if OF_RULES[DEVIATIONS[name].rule] == symptom] == []


def test_grave_symptoms_are_first_and_slight_ones_last() -> None:
    order = ("grave", "moderate", "slight")
    ranks = [order.index(symptom.severity) for symptom in SYMPTOMS]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("snapshot-position-ahead", "twice"),
        ("too-large-to-replicate", "lost"),
        ("replay-hash-kept-after-ack", "starved"),
        ("ack-below-mark-delete-refused", "internal-error"),
        ("unread-markers-count", "wrong-count"),
    ],
)
def test_well_known_deviations_have_the_symptom_that_users_report(name: str, symptom: str) -> None:
    assert symptom_of(DEVIATIONS[name]).name == symptom
