"""``known``: deviations by what a user sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from conformance.cli import cli
from conformance.commands.known import was_looked_at
from model.deviation import Deviation
from model.deviations import DEVIATIONS
from model.deviations.symptoms import EXCEPTIONS, OF_RULES, SYMPTOMS, symptom_of
from model.rules.catalogue import RULES


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, ["known", *arguments], catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.stdout


def listed(*arguments: str) -> dict[str, dict[str, Any]]:
    return {one["deviation"]: one for one in json.loads(printed(*arguments, "--json"))}


def test_without_a_release_every_deviation_is_listed_the_gravest_symptom_first() -> None:
    found = listed()
    assert found.keys() == DEVIATIONS.keys()
    order = [symptom.name for symptom in SYMPTOMS]
    ranks = [order.index(one["symptom"]) for one in found.values()]
    assert ranks == sorted(ranks)


def test_a_release_has_its_own_and_not_those_that_were_seen_to_be_gone() -> None:
    found = listed("--release", "4.0.8")
    assert "snapshot-position-ahead" in found
    assert "draining-refcount-doubled" not in found
    assert "draining-refcount-doubled" in listed("--release", "4.0.6")


def test_the_list_for_people_has_each_symptom_with_its_deviations() -> None:
    lines = printed("--release", "4.0.8").splitlines()
    heading = next(at for at, line in enumerate(lines) if line.startswith("twice (grave): "))
    assert lines[heading + 1].startswith("  ")
    assert lines[-1] == f"{len(listed('--release', '4.0.8'))} deviations are known of Pulsar 4.0.8."


def test_a_release_on_which_nobody_looked_for_deviations_is_said_to_be_one() -> None:
    assert not was_looked_at("4.1.2")
    assert printed("--release", "4.1.2").endswith(
        "No deviation was looked for on 4.1.2; these were seen on releases before and after it.\n"
    )


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
