"""The lists of known deviations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from packaging.version import Version

from conformance.harness_error import HarnessError
from conformance.known import known_of, read, shipped
from conformance.known.versions import is_among, version_in
from tests.report.samples import QUIRK

ENTRY = {
    "deviation": "batch-without-highest-id",
    "rule": "DEDUP-03",
    "releases": ["==4.0.*", ">=2.11,<3"],
    "summary": "what is seen",
    "cause": "why",
}


def written(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "known.json"
    path.write_text(json.dumps(entries))
    return path


IN_ORDER = (
    "4.2.4",
    "5.0.0-M1-SNAPSHOT",
    "5.0.0-M1",
    "5.0.0-M2",
    "5.0.0-candidate-1",
    "5.0.0-rc.2",
    "5.0.0-candidate-10",
    "5.0.0-SNAPSHOT",
    "5.0.0",
    "5.0.0.1",
    "5.0.1",
)


def test_milestones_and_candidates_are_versions_before_their_release_and_a_snapshot_is_the_last_of_them() -> None:
    assert sorted(IN_ORDER, key=lambda text: version_in(text) or Version("0")) == list(IN_ORDER)
    assert len({version_in(text) for text in IN_ORDER}) == len(IN_ORDER)
    assert version_in("5.0.2-candidate-1") == version_in("5.0.2-rc-1") == Version("5.0.2rc1")


@pytest.mark.parametrize(
    ("specifier", "first", "last"),
    [
        ("<=5.0.0-M1", "4.2.4", "5.0.0-M1"),
        (">=5.0.0-M1,<5.0.1", "5.0.0-M1", "5.0.0.1"),
        ("==5.0.0-M1", "5.0.0-M1", "5.0.0-M1"),
        ("==5.0.0", "5.0.0", "5.0.0"),
        (">=5.0.0-candidate-1,<=5.0.0", "5.0.0-candidate-1", "5.0.0"),
        ("<=4.2.4", "4.2.4", "4.2.4"),
    ],
)
def test_a_range_has_the_versions_from_its_first_to_its_last_one(specifier: str, first: str, last: str) -> None:
    among = [text for text in IN_ORDER if is_among(specifier, text)]
    assert among == list(IN_ORDER[IN_ORDER.index(first) : IN_ORDER.index(last) + 1])


def test_the_build_of_a_vendor_counts_as_the_release_whose_number_it_has() -> None:
    assert version_in("apachepulsar/pulsar-all:4.0.8-cloud") == version_in("4.0.8") == version_in("pulsar-client 4.0.8")
    assert version_in("latest") is None
    assert not is_among(">=0.1", "latest")


def test_the_shipped_list_can_be_read() -> None:
    names = [deviation.name for deviation in shipped()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("release", "concerned"),
    [("4.0.8", True), ("2.11.0", True), ("3.3.6", False), ("4.0.0-SNAPSHOT", True), ("5.0.0-M1", False), ("?", False)],
)
def test_one_matching_specifier_is_enough(tmp_path: Path, release: str, concerned: bool) -> None:
    (deviation,) = read(written(tmp_path, ENTRY))
    assert deviation.concerns(release) is concerned


@pytest.mark.parametrize(
    ("clients", "concerned"),
    [
        (None, True),
        ({"official": "3.13.0"}, True),
        ({"official": "pulsar-client 3.13.0"}, True),
        ({"official": "3.14.0"}, False),
        ({"wire": "3.13.0"}, False),
    ],
)
def test_a_client_deviation_is_known_for_some_client_versions(
    tmp_path: Path, clients: dict[str, str] | None, concerned: bool
) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"clients": {"official": "<=3.13.0"}}))
    assert deviation.concerns("4.0.8", clients) is concerned
    assert not deviation.concerns("3.3.6", clients)


@pytest.mark.parametrize(
    ("clients", "concerned"),
    [
        ({"official": "3.13.0"}, True),
        ({"wire": "0.1.0", "java": "4.0.8"}, True),
        ({"java": "4.0.9"}, False),
        ({"java": "4.0.9", "official": "3.13.0"}, True),
        ({"go": "4.0.8"}, False),
        ({}, False),
    ],
)
def test_a_deviation_of_several_clients_is_known_with_any_of_them(
    tmp_path: Path, clients: dict[str, str], concerned: bool
) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"clients": {"official": "<=3.13.0", "java": "==4.0.8"}}))
    assert deviation.concerns("4.0.8", clients) is concerned


def test_a_deviation_of_a_setting_is_known_if_the_broker_has_the_setting(tmp_path: Path) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"switched_on": {"classic=true": ["==3.3.6"]}}))
    assert deviation.concerns("3.3.6", None, {"classic": "true"})
    assert deviation.concerns("3.3.6")
    assert not deviation.concerns("3.3.6", None, {"classic": "false"})
    assert not deviation.concerns("3.3.6", None, {})
    assert deviation.concerns("4.0.8", None, {})
    (only,) = read(written(tmp_path, ENTRY | {"releases": [], "switched_on": {"classic=true": ["==4.0.8"]}}))
    assert only.concerns("4.0.8", None, {"classic": "true"})
    assert not only.concerns("4.0.8", None, {})


def test_a_history_path_is_relative_to_its_list(tmp_path: Path) -> None:
    (tmp_path / "one.json").touch()
    (deviation,) = read(written(tmp_path, ENTRY | {"history": "one.json"}))
    assert deviation.history == str(tmp_path / "one.json")


def test_omitted_fields_of_an_entry_are_those_of_the_suite(tmp_path: Path) -> None:
    (deviation,) = read(written(tmp_path, {"deviation": "batch-without-highest-id", "releases": ["==2.5.0"]}))
    (entry,) = (one for one in shipped() if one.name == "batch-without-highest-id")
    assert deviation == replace(entry, releases=("==2.5.0",), clients={})


def test_an_entry_may_use_a_former_name(tmp_path: Path) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"deviation": "batch-end-unsent"}))
    assert deviation.name == "batch-without-highest-id"


def test_a_deviation_of_other_clients_is_not_known(tmp_path: Path) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"clients": {"official": "<3.5"}}))
    release = deviation.releases[0].removeprefix("==")
    for releases in ([], [release]):
        assert known_of([deviation], releases, {"official": "3.4.0"}) == (deviation,)
        assert known_of([deviation], releases, {"official": "3.13.0"}) == ()
        assert known_of([deviation], releases) == (deviation,)


def test_every_deviation_may_apply_to_an_unknown_release() -> None:
    assert known_of([QUIRK], []) == (QUIRK,)
    assert known_of([QUIRK], ["2.11.0"]) == ()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"rule": "DEDUP-02"}, "breaks DEDUP-03, not 'DEDUP-02'"),
        (
            {"deviation": "no-such"},
            r"there is no deviation in the model 'no-such'; of the \d+ names the nearest are [a-z0-9, -]+$",
        ),
        ({"releases": []}, "names no release"),
        ({"releases": [""]}, "does not specify releases"),
        ({"releases": ["four"]}, "'four'"),
        ({"clients": {"official": "newest"}}, "'newest'"),
        ({"history": "missing.json"}, "the deviation .* has no history .*missing.json"),
        ({"sumary": "a slip"}, "sumary"),
        ({"cause": None}, "is not a list of known deviations"),
    ],
)
def test_an_invalid_entry_is_one_clear_sentence(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    path = written(tmp_path, ENTRY | change)
    with pytest.raises(HarnessError, match=error) as raised:
        read(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[", b"\xff\xfe"])
def test_a_file_that_is_no_list_is_one_clear_sentence(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "known.json"
    path.write_bytes(raw)
    with pytest.raises(HarnessError, match="is not a list of known deviations"):
        read(path)


def test_a_missing_file_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No such file"):
        read(tmp_path / "missing.json")


def test_a_seldom_deviation_is_known_and_not_expected_to_come_back(tmp_path: Path) -> None:
    (deviation,) = read(written(tmp_path, ENTRY | {"seldom": ["==3.3.6"]}))
    assert deviation.concerns("3.3.6")
    assert not deviation.comes_back_on("3.3.6", {})
    assert deviation.comes_back_on("4.0.8", {})
    with pytest.raises(HarnessError, match="does not specify releases"):
        read(written(tmp_path, ENTRY | {"seldom": ["4.0.8"]}))
