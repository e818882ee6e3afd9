"""Tests of what is made once for a release, with releases that have nothing in them: no process of theirs starts."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.installation.java import Java, find_java
from conformance.brokers.processes.member import Kind
from conformance.brokers.processes.preparation import Preparation
from conformance.brokers.release import Release
from conformance.brokers.startup.jvm import QUICK_START
from conformance.harness_error import HarnessError


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Release:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return empty_release(tmp_path / "empty")


def empty_release(folder: Path) -> Release:
    (folder / "lib").mkdir(parents=True)
    return Release(folder=folder, version="0.0.0")


def prepared(tmp_path: Path) -> set[Path]:
    return {made.parent for made in (tmp_path / "cache" / "prepared").glob("*/*/archives")}


def test_archives_that_cannot_be_made_are_optional_and_not_tried_again(
    release: Release, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert [Preparation(release, find_java()).archive(role) for role in get_args(Kind)] == [(), (), ()]
    assert [record.levelname for record in caplog.records if "No class-data archives" in record.message] == ["WARNING"]
    assert list((tmp_path / "cache" / "runs").iterdir()) == []


def test_metadata_that_cannot_be_made_is_a_harness_error_and_leaves_nothing(release: Release, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="ended with status 1"):
        Preparation(release, find_java()).metadata("c")
    assert list((tmp_path / "cache" / "prepared").rglob("made")) == []
    assert list((tmp_path / "cache" / "runs").iterdir()) == []


def test_another_build_of_java_or_of_the_release_gets_new_archives_and_the_old_ones_are_removed(
    release: Release, tmp_path: Path
) -> None:
    java = find_java()
    folders = [made_for(release, java, tmp_path)]
    folders.append(made_for(release, dataclasses.replace(java, build="another"), tmp_path))
    (release.folder / "lib" / "another.jar").touch()
    folders.append(made_for(release, java, tmp_path))
    assert len(set(folders)) == 3
    assert prepared(tmp_path) == {folders[-1]}


def test_files_made_for_a_deleted_release_are_removed(release: Release, tmp_path: Path) -> None:
    made_for(release, find_java(), tmp_path)
    (release.folder / "lib").rmdir()
    release.folder.rmdir()
    left = made_for(empty_release(tmp_path / "other"), find_java(), tmp_path)
    assert prepared(tmp_path) == {left}


def made_for(release: Release, java: Java, tmp_path: Path) -> Path:
    before = prepared(tmp_path)
    Preparation(release, java).archive("broker")
    (new,) = prepared(tmp_path) - before
    return new


@pytest.mark.parametrize("content", [None, b"", b"no archive" * 1000])
def test_java_starts_without_an_unusable_archive(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "broker.jsa"
    if content is not None:
        file.write_bytes(content)
    command = [str(find_java().executable), *QUICK_START, f"-XX:SharedArchiveFile={file}", "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
