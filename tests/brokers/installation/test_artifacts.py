"""Tests of fetching from Maven Central, with the real thing and small files of it."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.brokers.installation.artifacts import artifact
from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.harness_error import HarnessError

GROUP, NAME, VERSION = "org.jboss.byteman", "byteman-submit", "4.0.26"
JAR = f"{NAME}-{VERSION}.jar"
IN_MAVEN = Path("org", "jboss", "byteman", NAME, VERSION, JAR)


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Empty caches, the suite's and Maven's; the folder of the suite's."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("M2_REPO", str(tmp_path / "maven"))
    return tmp_path / "cache"


def test_a_file_is_downloaded_with_its_strongest_checksum_and_leaves_no_partial_file(caches: Path) -> None:
    jar = artifact(GROUP, NAME, VERSION)
    published = jar.with_name(f"{JAR}.sha512").read_text()
    assert jar.is_relative_to(caches)
    assert hashlib.sha512(jar.read_bytes()).hexdigest() == published.strip()
    assert {file.name for file in jar.parent.iterdir()} == {JAR, f"{JAR}.sha512", f"{JAR}.lock"}


def test_a_file_in_the_cache_is_not_downloaded_again() -> None:
    jar = artifact(GROUP, NAME, VERSION)
    before = jar.stat()
    assert artifact(GROUP, NAME, VERSION) == jar
    assert jar.stat() == before


def test_a_file_that_differs_from_the_published_one_is_removed_and_downloaded_again() -> None:
    jar = artifact(GROUP, NAME, VERSION)
    sound = jar.read_bytes()
    jar.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(HarnessError, match=re.escape(str(jar))) as harness_error:
        artifact(GROUP, NAME, VERSION)
    assert "\n" not in str(harness_error.value)
    assert not jar.exists()
    assert artifact(GROUP, NAME, VERSION).read_bytes() == sound


def test_a_file_without_a_published_checksum_is_used_and_reported_as_unverified(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        unverified = artifact(GROUP, NAME, VERSION, packaging="jar.sha1")
    assert unverified.exists()
    assert [record.message for record in caplog.records if "no checksum" in record.message]


def test_a_missing_version_is_one_sentence_and_leaves_nothing(caches: Path) -> None:
    with pytest.raises(HarnessError, match=r"^Maven Central has no org\.jboss\.byteman:byteman-submit:4\.0\.99:jar\.$"):
        artifact(GROUP, NAME, "4.0.99")
    assert [file.suffix for file in caches.rglob("*") if file.is_file()] == [".lock"]


@pytest.mark.parametrize("version", ["", "../../4.0.26", "4.0.26/..", "4 0", "RELEASE\n"])
def test_invalid_coordinates_are_refused(version: str) -> None:
    with pytest.raises(HarnessError, match="cannot be part of the coordinates"):
        artifact(GROUP, NAME, version)


def test_a_file_in_the_maven_repository_is_used_only_if_it_is_the_published_one(tmp_path: Path) -> None:
    of_maven = tmp_path / "maven" / IN_MAVEN
    of_maven.parent.mkdir(parents=True)
    of_maven.write_bytes(b"something else")
    jar = artifact(GROUP, NAME, VERSION)
    assert jar.read_bytes() != b"something else"
    assert of_maven.read_bytes() == b"something else"


def test_runs_that_download_the_same_file_at_once_all_get_it_complete(caches: Path) -> None:
    program = (
        "from conformance.brokers.installation.artifacts import artifact\n"
        f"print(artifact({GROUP!r}, {NAME!r}, {VERSION!r}).stat().st_ino)"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(4)
    ]
    answers = {run.communicate(timeout=120)[0] for run in runs}
    assert [run.returncode for run in runs] == [0] * 4
    assert len(answers) == 1, "it was fetched once, and all use that file"


def test_partial_files_of_a_killed_run_are_removed() -> None:
    jar = artifact(GROUP, NAME, VERSION)
    half_made = jar.with_name(f"{JAR}.partial")
    half_made.mkdir()
    (half_made / JAR).write_bytes(b"half")
    jar.unlink()
    assert artifact(GROUP, NAME, VERSION).stat().st_size > len(b"half")
    assert not half_made.exists()
