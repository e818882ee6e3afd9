"""The rule files, read into values."""

from __future__ import annotations

from typing import get_args

import pytest

from conformance.faults.byteman import rule_names
from conformance.faults.catalogue import (
    BrokerDefect,
    FailpointRules,
    broker_defects,
    defects,
    failpoints,
    find,
    find_failpoint,
    parse,
)
from conformance.faults.failpoints import FailpointOnTopic
from conformance.faults.seeded_defect import SeededBrokerDefect
from conformance.harness_error import HarnessError
from model.failpoints import FAILPOINTS, FailpointKind
from model.rules.catalogue import CATALOGUE, select

GOOD = "# defect: x\n# breaks: DEDUP-03\n# summary: It does.\nRULE defect x\nENDRULE\n"


def test_every_defect_breaks_a_rule_of_the_catalogue_and_has_a_summary() -> None:
    rules = {rule.id for rule in CATALOGUE}
    for defect in defects():
        assert defect.breaks in rules, defect.name
        assert defect.summary.endswith("."), defect.name


def test_there_are_at_least_twelve_defects_and_names_are_unique() -> None:
    assert len(defects()) >= 12
    names = [defect.name for defect in defects()] + [failpoint.name for failpoint in failpoints()]
    assert len(names) == len(set(names))
    faults: list[BrokerDefect | FailpointRules] = [*broker_defects(), *failpoints()]
    rules = [rule for fault in faults for rule in rule_names(fault.text)]
    assert len(rules) == len(set(rules))


def test_every_failpoint_can_be_armed() -> None:
    assert sorted({FailpointOnTopic(kind, "t").name for kind in FAILPOINTS}) == [
        failpoint.name for failpoint in failpoints()
    ]


def test_every_failpoint_of_histories_has_an_entry() -> None:
    assert set(get_args(FailpointKind)) == FAILPOINTS.keys() - {"crash-before-confirmation", "producers-purged"}


def test_a_fault_is_found_by_its_name() -> None:
    assert [find(defect.name) for defect in defects()] == list(defects())
    assert find_failpoint("write-fails").name == "write-fails"


def test_an_unknown_defect_is_one_sentence_that_names_the_listing_command() -> None:
    with pytest.raises(HarnessError, match="there is no defect 'nonsense'; `pulsar-conformance defects` lists them"):
        find("nonsense")


def test_a_file_is_read_with_its_header() -> None:
    assert parse("x.btm", GOOD) == BrokerDefect(name="x", breaks="DEDUP-03", summary="It does.", text=GOOD)


def test_a_file_may_list_the_settings_of_its_defect() -> None:
    needing = GOOD.replace("RULE", "# setting: a=b=c\n# setting: d=\nRULE")
    found = parse("x.btm", needing)
    assert isinstance(found, BrokerDefect)
    assert found.settings == (("a", "b=c"), ("d", ""))


def test_a_file_may_name_the_family_whose_machines_show_its_defect() -> None:
    found = parse("x.btm", GOOD.replace("RULE", "# family: ACK\nRULE"))
    assert isinstance(found, BrokerDefect)
    assert found.family == "ACK"
    families = {defect.family for defect in defects() if defect.family is not None}
    assert all(select(family) for family in families), "a hunt has these rules"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# breaks", "# setting: a\n# breaks", "a setting is written NAME=VALUE, not 'a'"),
        ("# defect: x\n", "", "its header needs 'failpoint' or 'defect'"),
        ("# summary: It does.\n", "", "and 'summary'"),
        ("# breaks: DEDUP-03\n", "", "needs 'breaks'"),
        ("# defect: x\n", "# defect: y\n", "its header says that it is 'y'"),
        ("RULE defect x", "RULE y", "need names that begin with 'defect x'"),
        ("RULE defect x\nENDRULE\n", "", r"found \(\)"),
    ],
)
def test_a_malformed_file_is_refused(old: str, new: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse("x.btm", GOOD.replace(old, new))


def test_clients_of_a_defective_broker_use_its_own_addresses_which_change_when_one_of_several_is_frozen() -> None:
    assert all(SeededBrokerDefect(defect).service is None for defect in broker_defects())
