"""Assembled releases: those whose distribution is published show whether the jars are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.brokers.installation.artifacts import Coordinates, artifact, is_published
from conformance.brokers.installation.assembly import assembled
from conformance.brokers.installation.gaps import Resolution
from conformance.brokers.installation.maven import _OVERRIDDEN, Overridden, _failure, _overridden
from conformance.brokers.installation.nearest import is_newer, nearest
from conformance.brokers.installation.pom import Pom
from conformance.brokers.installation.record import Substitute, origin_of
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
        "Pulsar 9.9.9 can be neither downloaded nor assembled: "
        "Maven Central has no org.apache.pulsar:pulsar-broker:9.9.9:jar."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["9.9.9.lock"]


def test_the_error_names_what_maven_misses_without_its_other_output() -> None:
    said = ["Failed to execute goal on project assembled: Could not find artifact a:b:jar:1 in central (https://x)"]
    assert str(_failure(said)) == "Maven Central has no a:b:1:jar."
    again = ["dependency: a:c:jar:1 (compile)", "a:c:jar:1 was not found in https://x during a previous attempt."]
    assert str(_failure([*said, *again])) == "Maven Central has no a:b:1:jar and no a:c:1:jar."
    assert str(_failure([])) == "Maven cannot resolve it: it did not say why"


def test_a_library_without_its_parent_is_resolved_with_the_parent_of_the_nearest_version(tmp_path: Path) -> None:
    """5.0.1 has no dependency management of its own, and BookKeeper 4.18.2 no parent, if Maven Central has not got
    them since."""
    found: list[Substitute] = []
    resolution = Resolution("5.0.1", tmp_path, on_file=lambda: None, on_gap=found.append)
    wanted = Coordinates(group="org.apache.bookkeeper", name="bookkeeper-common-allocator", version="4.18.2")
    names = {jar.file.name for jar in resolution.resolved([wanted])}
    assert "bookkeeper-common-allocator-4.18.2.jar" in names
    assert any(name.startswith("netty-buffer-4.2.19") for name in names), "stated by a module of 5.0.1"
    assert tuple(found) == resolution.substitutes
    management = Coordinates(group="org.apache.pulsar", name="pulsar-dependencies", version="5.0.1", packaging="pom")
    parent = Coordinates(group="org.apache.bookkeeper", name="bookkeeper", version="4.18.2", packaging="pom")
    missing = {str(one) for one in (management, parent) if not is_published(one)}
    assert {one.missing for one in found} >= missing


def test_what_has_no_version_near_is_named(tmp_path: Path) -> None:
    resolution = Resolution("4.0.8", tmp_path, on_file=lambda: None, on_gap=lambda _: None)
    with pytest.raises(HarnessError, match=r"^Maven Central has no org\.apache\.pulsar:no-such-module:4\.0\.8:jar\.$"):
        resolution.resolved([Coordinates(group="org.apache.pulsar", name="no-such-module", version="4.0.8")])


def test_the_nearest_version_is_of_the_same_line_and_rather_an_earlier_one() -> None:
    def near(name: str, version: str, packaging: str = "jar") -> str | None:
        found = nearest(Coordinates(group="org.apache.pulsar", name=name, version=version, packaging=packaging))
        return None if found is None else found.version

    assert near("pulsar-broker", "4.0.5") == "4.0.4"
    assert near("pulsar-dependencies", "5.0.1", "pom") == "5.0.0-M1"
    assert near("no-such-module", "4.0.8") is None


@pytest.mark.parametrize(
    ("line", "name", "required", "taken"),
    [
        ("|  +- a.b:c:jar:1.62.0:compile (version managed from 1.66.0)", "c", "1.66.0", "1.62.0"),
        ("|  |  +- (a.b:c:jar:1.2:runtime - version managed from 1.3; omitted for duplicate)", "c", "1.3", "1.2"),
        ("|  |  \\- (a.b:d:jar:linux:2.0:compile - omitted for conflict with 1.9)", "d", "2.0", "1.9"),
        ("+- a.b:d:jar:2.0:compile (version managed from 1.0; scope not updated to compile)", "d", "1.0", "2.0"),
    ],
)
def test_the_tree_of_dependencies_tells_which_versions_were_overridden(
    line: str, name: str, required: str, taken: str
) -> None:
    classifier = "linux" if "linux" in line else None
    (found,) = map(_overridden, _OVERRIDDEN.finditer(line))
    coordinates = Coordinates(group="a.b", name=name, version=required, classifier=classifier)
    assert found == Overridden(coordinates, taken)
    assert is_newer(found.required.version, found.taken) == (required > taken)


def test_a_project_file_of_another_version_has_that_version_wherever_it_is_its_own(tmp_path: Path) -> None:
    file = artifact("org.apache.bookkeeper", "bookkeeper", "4.18.0", packaging="pom")
    (tmp_path / "pom.xml").write_text(Pom(file).as_version("4.18.0", "4.18.2"))
    text = (tmp_path / "pom.xml").read_text()
    assert "<version>4.18.2</version>" in text
    assert "<version>4.18.0</version>" not in text
    assert Pom(tmp_path / "pom.xml").has_management()
