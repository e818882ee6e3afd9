"""Tests of a tarball from a build of Pulsar as the release to check."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.release import release_at
from conformance.harness_error import HarnessError


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(tarball: Path, version: str = "5.0.0-SNAPSHOT", *names: str) -> Path:
    """A tarball of the layout that a build makes, with empty files."""
    broker = f"lib/org.apache.pulsar-pulsar-broker-{version}.jar"
    with tarfile.open(tarball, "w:gz") as tar:
        for name in names or ("conf/standalone.conf", broker):
            tar.addfile(tarfile.TarInfo(f"apache-pulsar-{version}/{name}"), io.BytesIO())
    return tarball


def unpacked_builds(cache: Path) -> list[Path]:
    return [path for path in (cache / "builds").glob("*/*") if path.is_dir()]


def in_a_process(tarball: Path) -> Path:
    """Where another process, which ends then, finds a build unpacked."""
    program = "import sys; from pathlib import Path; from conformance.brokers.release import release_at\n"
    asked = [sys.executable, "-c", program + "print(release_at(Path(sys.argv[1])).folder)", str(tarball)]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())


def test_a_tarball_is_unpacked_once_and_its_version_is_known(tmp_path: Path, cache: Path) -> None:
    tarball = build(tmp_path / "apache-pulsar-bin.tar.gz")
    release = release_at(tarball)
    assert release.version == "5.0.0-SNAPSHOT"
    assert release.folder.is_relative_to(cache)
    (release.folder / "mark").touch()
    assert release_at(tarball) == release
    assert (release.folder / "mark").exists()


def test_a_rebuilt_tarball_is_unpacked_again_and_the_old_one_is_removed(tmp_path: Path, cache: Path) -> None:
    tarball = tmp_path / "bin.tar.gz"
    old = in_a_process(build(tarball, "5.0.0-SNAPSHOT"))
    os.utime(build(tarball, "5.0.1-SNAPSHOT"), ns=(1, 1))
    assert release_at(tarball).version == "5.0.1-SNAPSHOT"
    assert not old.exists()
    assert len(unpacked_builds(cache)) == 1


def test_an_old_build_stays_while_a_process_uses_it(tmp_path: Path, cache: Path) -> None:
    tarball = tmp_path / "bin.tar.gz"
    old = release_at(build(tarball, "5.0.0-SNAPSHOT"))
    os.utime(build(tarball, "5.0.1-SNAPSHOT"), ns=(1, 1))
    in_a_process(tarball)
    assert old.folder.exists()
    assert len(unpacked_builds(cache)) == 2


def test_only_the_unpacked_builds_of_deleted_tarballs_are_removed(tmp_path: Path) -> None:
    gone, other = tmp_path / "gone.tar.gz", tmp_path / "other.tar.gz"
    of_gone, of_other = in_a_process(build(gone)), in_a_process(build(other))
    gone.unlink()
    release_at(build(tmp_path / "third.tar.gz"))
    assert not of_gone.exists()
    assert of_other.exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", r"^There is no distribution at .*nothing: no such file or folder\.$"),
        ("text", r"^.*text cannot be unpacked: .*$"),
        ("source", r"^.*source is no server distribution of Pulsar; its build names one [^ ]*\.tar\.gz\.$"),
        ("half", r"^.*half cannot be unpacked: .*$"),
    ],
)
def test_a_tarball_without_a_distribution_is_one_sentence_and_leaves_nothing(
    name: str, sentence: str, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "text").write_text("not a tarball")
    build(tmp_path / "source", "1.0", "pom.xml", "README.md")
    whole = build(tmp_path / "whole").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(HarnessError, match=sentence):
            release_at(tmp_path / name)
    assert unpacked_builds(cache) == []
