"""Assembled releases: those whose distribution is published show whether the jars are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.brokers.installation.assembly import assembled, origin_of
from conformance.brokers.installation.maven import _failure
from conformance.brokers.release import fetched_release, release_in
from conformance.harness_error import HarnessError

PUBLISHED = "2.10.1"


def jars(folder: Path) -> dict[str, Path]:
    return {jar.name: jar for jar in (folder / "lib").glob("*.jar")}


def test_an_assembled_release_has_the_jars_and_configuration_of_the_distribution(tmp_path: Path) -> None:
    folder = assembled(PUBLISHED, tmp_path / PUBLISHED)
    published = fetched_release(PUBLISHED)
    ours, theirs = jars(folder), jars(published.folder)
    assert release_in(folder).version == PUBLISHED
    assert len(ours) > 200
    assert sum(name in theirs for name in ours) > 0.95 * len(ours), sorted(ours.keys() - theirs.keys())
    assert [name for name in ours.keys() & theirs if ours[name].read_bytes() != theirs[name].read_bytes()] == []
    assert len([name for name in ours if "log4j-slf4j" in name]) == 1, "either binding breaks the other"
    assert release_in(folder).shipped("standalone.conf") == published.shipped("standalone.conf")
    origin = origin_of(folder)
    assert origin is not None
    assert (origin.version, origin.jars, origin.has_own_configuration) == (PUBLISHED, len(ours), True)
    assert origin_of(published.folder) is None


def test_a_release_that_is_not_published_is_a_harness_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as harness_error:
        assembled("9.9.9", tmp_path / "9.9.9")
    assert str(harness_error.value) == (
        "Pulsar 9.9.9 can be neither downloaded nor assembled: Maven Central has no org.apache.pulsar:pulsar:9.9.9:pom."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["9.9.9.lock"]


def test_the_error_names_what_maven_misses_without_its_other_output() -> None:
    said = ["Failed to execute goal on project assembled: Could not find artifact a:b:jar:1 in central (https://x)"]
    assert _failure(said) == "Maven Central has no a:b:jar:1."
    again = ["dependency: a:c:jar:1 (compile)", "a:c:jar:1 was not found in https://x during a previous attempt."]
    assert _failure([*said, *again]) == "Maven Central has no a:b:jar:1 and no a:c:jar:1."
    assert _failure([]) == "Maven cannot resolve it: it did not say why"
