"""The entries of deviations: names, rules, releases and histories fit together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import assert_never

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from conformance.faults.catalogue import defects
from conformance.known import HISTORIES
from model.deviation import MAX_STATEMENT, Deviation
from model.deviations import BY_DOCUMENT, DEVIATIONS, current_name
from model.rules.catalogue import CATALOGUE

FAMILIES = {
    "deduplication": "DEDUP",
    "replication": "REPL",
    "chunking": "CHUNK",
    "cursors": "ACK",
    "key_shared": "KEY",
    "service": "SERVE",
}
RULES = {rule.id for rule in CATALOGUE}

each = pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=lambda one: one.name)


def test_no_name_or_former_name_occurs_twice() -> None:
    names = [name for entries in BY_DOCUMENT.values() for one in entries for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))


def test_a_former_name_leads_to_the_present_one() -> None:
    assert current_name("pending-id-told") == "pushed-id-in-producer-success"
    assert current_name("snapshot-position-ahead") == "snapshot-position-ahead"


@pytest.mark.parametrize("document", BY_DOCUMENT)
def test_a_deviation_is_listed_with_the_document_of_its_rule(document: str) -> None:
    assert {one.rule.partition("-")[0] for one in BY_DOCUMENT[document]} == {FAMILIES[document]}


@each
def test_a_deviation_breaks_only_existing_rules(deviation: Deviation) -> None:
    assert {deviation.rule, *deviation.also} <= RULES
    assert deviation.rule not in deviation.also


@each
def test_the_statement_is_short_and_its_sentences_end(deviation: Deviation) -> None:
    assert len(deviation.statement) <= MAX_STATEMENT
    assert deviation.statement.endswith(".")
    assert deviation.cause.endswith(".")


@each
def test_upstream_issues_are_references(deviation: Deviation) -> None:
    assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", reference) for reference in deviation.upstream)


@each
def test_a_client_deviation_names_the_client(deviation: Deviation) -> None:
    assert deviation.side == "broker" or (deviation.clients and not deviation.releases)


@each
def test_the_known_releases_are_those_that_showed_the_deviation(deviation: Deviation) -> None:
    specifiers = [*deviation.releases, *deviation.seldom]
    for setting in deviation.switched_on.values():
        specifiers += setting
    releases = [
        re.sub("(-M1)?( classic)?$", "", release)
        for release in deviation.seen
        if not release.startswith("pulsar-client")
    ]
    assert all(any(Version(one) in SpecifierSet(each) for each in specifiers) for one in releases)
    assert not any(Version(one) in SpecifierSet(each) for one in deviation.gone for each in specifiers)


def test_exactly_the_entries_with_a_history_have_a_file() -> None:
    with_history = {one.name for one in DEVIATIONS.values() if one.has_history}
    assert {Path(path).stem for path in HISTORIES.iterdir()} == with_history


@each
def test_the_shadow_is_tried(deviation: Deviation) -> None:
    """Those of simulated brokers are compared in ``tests/stateful/test_shadows.py``."""
    match deviation.shadow.by:
        case "small history":
            assert deviation.shadow.name in _tests_of_small_histories()
        case "seeded defect":
            assert deviation.shadow.name in {one.name for one in defects()}
        case "simulated broker":
            pass
        case _:
            assert_never(deviation.shadow.by)


@cache
def _tests_of_small_histories() -> frozenset[str]:
    modules = Path(__file__).parent.rglob("test_*.py")
    return frozenset(name for one in modules for name in re.findall(r"^def (test_\w+)", one.read_text("utf-8"), re.M))
