"""The entries of deviations: names, rules, releases and histories fit together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import assert_never

import pytest

from conformance.faults.catalogue import defects
from conformance.known import HISTORIES
from conformance.known.versions import is_among, version_in
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

ENTRIES = DEVIATIONS.values()
"""Each test is about all of them: a test for each entry would be a thousand, at more overhead than they take."""


def test_no_name_or_former_name_occurs_twice() -> None:
    names = [name for entries in BY_DOCUMENT.values() for one in entries for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))


def test_a_former_name_leads_to_the_present_one() -> None:
    assert current_name("pending-id-told") == "pushed-id-in-producer-success"
    assert current_name("snapshot-position-ahead") == "snapshot-position-ahead"


@pytest.mark.parametrize("document", BY_DOCUMENT)
def test_a_deviation_is_listed_with_the_document_of_its_rule(document: str) -> None:
    assert {one.rule.partition("-")[0] for one in BY_DOCUMENT[document]} == {FAMILIES[document]}


def test_a_deviation_breaks_only_existing_rules() -> None:
    for deviation in ENTRIES:
        assert {deviation.rule, *deviation.also} <= RULES, deviation.name
        assert deviation.rule not in deviation.also, deviation.name


def test_the_statement_is_short_and_its_sentences_end() -> None:
    for deviation in ENTRIES:
        assert len(deviation.statement) <= MAX_STATEMENT, deviation.name
        assert deviation.statement.endswith("."), deviation.name
        assert deviation.cause.endswith("."), deviation.name


def test_upstream_issues_are_references() -> None:
    for deviation in ENTRIES:
        assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", reference) for reference in deviation.upstream), deviation.name


def test_a_client_deviation_names_the_client() -> None:
    for deviation in ENTRIES:
        assert deviation.side == "broker" or (deviation.clients and not deviation.releases), deviation.name


def test_the_known_releases_are_those_that_showed_the_deviation() -> None:
    for deviation in ENTRIES:
        specifiers = specifiers_of(deviation)
        seen = [release for release in deviation.seen if release[0].isdigit()]  # others are clients
        for one in (*seen, *deviation.read):
            assert any(is_among(each, one) for each in specifiers), (deviation.name, one)
        for one in (*deviation.gone, *deviation.fixed):
            assert not any(is_among(each, one) for each in specifiers), (deviation.name, one)


def test_a_range_ends_where_the_deviation_was_last_seen_or_read_or_where_it_is_fixed() -> None:
    """So that a new release has none of them before somebody looked. Releases in between are taken to have it."""
    for deviation in ENTRIES:
        for specifier in specifiers_of(deviation):
            bounds = dict(re.findall(r"(<=|<|==)([^,]+)", specifier))
            assert len(bounds) == 1, f"{specifier} has no end, or several"
            ((bound, end),) = bounds.items()
            version = version_in(end)
            if bound == "<":
                without = {version_in(one) for one in (*deviation.gone, *deviation.fixed)}
                assert version in without or continues(deviation, end) or is_named(end, deviation.cause), specifier
            else:
                assert version in {version_in(one) for one in (*deviation.seen, *deviation.read)}, specifier


def specifiers_of(deviation: Deviation) -> list[str]:
    switched_on = [specifier for ones in deviation.switched_on.values() for specifier in ones]
    return [*deviation.releases, *deviation.seldom, *switched_on]


def continues(deviation: Deviation, end: str) -> bool:
    """Whether another range begins where one ends: with a setting, say."""
    return any(is_among(specifier, end) for specifier in specifiers_of(deviation))


def is_named(release: str, cause: str) -> bool:
    """Whether the cause says what changed in a release."""
    return re.search(rf"(?<![\d.]){re.escape(release)}(?!\d|\.\d)", cause) is not None


def test_the_client_of_a_driver_is_named_with_versions_that_were_seen() -> None:
    for deviation in ENTRIES:
        for client, specifier in deviation.clients.items():
            seen = [one for one in deviation.seen if one.startswith(f"{client.capitalize()} client")]
            assert client == "official" or any(is_among(specifier, one) for one in seen), deviation.name


def test_no_range_of_an_official_client_is_open() -> None:
    specifiers = [specifier for one in DEVIATIONS.values() for specifier in one.clients.values()]
    assert [one for one in specifiers if "<" not in one and "==" not in one] == []


def test_exactly_the_entries_with_a_history_have_a_file() -> None:
    with_history = {one.name for one in DEVIATIONS.values() if one.has_history}
    assert {Path(path).stem for path in HISTORIES.iterdir()} == with_history


def test_the_shadow_is_tried() -> None:
    """Those of simulated brokers are compared in ``tests/stateful/test_shadows.py``."""
    for deviation in ENTRIES:
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
    modules = Path(__file__).parents[1].rglob("test_*.py")
    return frozenset(name for one in modules for name in re.findall(r"^def (test_\w+)", one.read_text("utf-8"), re.M))
