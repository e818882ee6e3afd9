"""Compiles drivers with the toolchains that are installed, once for each source and release, into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.harness_error import HarnessError

BUILD_TIMEOUT_S: Final = 1200.0
"""The timeout of a step, which may download and compile a few hundred packages on a busy machine."""
_SHOWN: Final = 500
_DIGITS: Final = 12

Say = Callable[[str], None]


def built(name: str, sources: Sequence[Path], build: Callable[[Path], Path]) -> Path:
    """What ``build`` makes of these sources in a folder, from the cache if it was made before."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:_DIGITS]
    place = cache_folder("clients") / f"{name}-{digest}"
    if not place.exists():
        with sole_maker(place) as workshop:
            if not place.exists():
                for source in sources:
                    shutil.copy(source, workshop)
                build(workshop).replace(place)
    return place


def tool(program: str, of: str) -> str:
    """The path of a compiler. Raises :class:`HarnessError` if it is not installed."""
    found = shutil.which(program)
    if found is None:
        raise HarnessError(f"The driver of {of} is compiled with {program}, which is not on the path.")
    return found


def run(command: Sequence[str], folder: Path, *, of: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a step of a build. Raises :class:`HarnessError`, with what it said last, if it fails."""
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"The driver of {of} is not built within {BUILD_TIMEOUT_S:g} s.") from None
    if ran.returncode:
        raise HarnessError(f"The driver of {of} cannot be built: {ran.stderr.strip()[-_SHOWN:]}")
