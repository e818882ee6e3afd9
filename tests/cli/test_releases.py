"""``releases``: what is listed without a network, and what Maven Central is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.installation.record import ORIGIN_FILE
from conformance.brokers.tried import tried
from conformance.cli import cli
from conformance.commands.releases import order

IN_CACHE = "7.7.7"


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conformance", *arguments], capture_output=True, text=True, check=False
    )


def listed(*versions: str) -> dict[str, dict[str, object]]:
    ran = CliRunner().invoke(cli, ["releases", *versions, "--json"], catch_exceptions=False)
    assert ran.exit_code == 0
    return {one["version"]: one for one in json.loads(ran.stdout)}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    return tmp_path / "releases"


def test_without_versions_the_tested_and_the_cached_releases_are_listed(cache: Path) -> None:
    (cache / IN_CACHE / "lib").mkdir(parents=True)
    (cache / "4.0.8.lock").touch()
    found = listed()
    assert list(found) == [*(one.version for one in tried()), IN_CACHE]
    assert [one["version"] for one in found.values() if one["is_cached"]] == [IN_CACHE]
    assert found[IN_CACHE]["how"] == "tarball"
    assert {version: one["how"] for version, one in found.items() if version != IN_CACHE} == {
        one.version: one.how for one in tried()
    }


def test_an_assembled_release_in_the_cache_differs_from_a_distribution(cache: Path) -> None:
    (cache / IN_CACHE / "lib").mkdir(parents=True)
    origin = {"version": IN_CACHE, "jars": 1, "has_own_configuration": True, "seconds": 1.0}
    (cache / IN_CACHE / ORIGIN_FILE).write_text(json.dumps(origin))
    assert listed(IN_CACHE)[IN_CACHE]["how"] == "assembled"


def test_maven_central_is_queried_for_an_untested_release_and_the_status_tells_if_it_cannot_be_had() -> None:
    ran = suite("releases", "9.9.9", "4.0.8", "--json")
    assert ran.returncode == 1
    assert json.loads(ran.stdout)[0] == {
        "version": "9.9.9",
        "how": "not available",
        "is_cached": False,
        "note": "it cannot be had: Maven Central has no part of it",
    }


def test_the_table_has_the_same_content_for_people() -> None:
    ran = suite("releases", "9.9.9")
    assert ran.returncode == 1
    assert " ".join(ran.stdout.splitlines()[1].split()) == (
        "9.9.9 not available - it cannot be had: Maven Central has no part of it"
    )


@pytest.mark.parametrize("words", [["check"], ["soak", "--minutes", "1"], ["defects", "--hunt", "ack-dropped"]])
@pytest.mark.parametrize("name", ["9.9.9", "4.0.8,9.9.9"])
def test_a_release_that_cannot_be_had_is_refused_before_anything_is_said(words: list[str], name: str) -> None:
    ran = suite(*words, "--broker", name)
    sentence = "There is no Pulsar 9.9.9 to be had: Maven Central has no part of it."
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"pulsar-conformance: {sentence}\n")


def test_releases_are_sorted_by_version() -> None:
    versions = ["5.0.0", "4.0.10", "5.0.0-M1", "4.0.9", "mine"]
    assert sorted(versions, key=order) == ["4.0.9", "4.0.10", "5.0.0-M1", "5.0.0", "mine"]
    assert list(tried()) == sorted(tried(), key=lambda one: order(one.version))
