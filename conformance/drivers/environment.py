"""Another release of pulsar-client, or a package that a build needs: an environment with a Python.

The environment has only this package, and takes all others from the suite's own environment, so the package is the only
difference. ``venv`` and ``pip`` create it on first use, in the user's cache.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.harness_error import HarnessError

INSTALL_TIMEOUT_S: Final = 600.0
"""The timeout for fetching a package of about ten megabytes."""

BORROWED: Final = "borrowed.pth"
"""The file of an environment that adds the packages of this one after its own."""


def python_with_client(version: str, say: Callable[[str], None]) -> Path:
    """The Python of an environment with this release of pulsar-client, as :func:`python_with` makes it."""
    return python_with("pulsar-client", version, say)


def python_with(package: str, version: str, say: Callable[[str], None]) -> Path:
    """The Python of an environment with this release of a package, which is created if it is missing.

    ``say`` receives one line before a long step. Raises :class:`HarnessError` if the release is not available.
    """
    here = f"{sys.implementation.cache_tag}-{platform.machine()}"
    place = cache_folder("clients") / f"{package}-{version}-{here}"
    python = Path("bin", "python")
    if not place.exists():
        with sole_maker(place) as workshop:
            if not place.exists():
                say(f"Fetching {package} {version} into an environment of its own ...")
                _make(workshop / "environment", f"{package}=={version}")
                (workshop / "environment").rename(place)
    _borrow(place)
    return place / python


def _make(folder: Path, what: str) -> None:
    """Create an environment with only this package."""
    try:
        venv.create(folder, symlinks=True)
    except OSError as error:
        raise HarnessError(f"{what} is not available: its environment cannot be created: {error}") from error
    _pip(["--python", str(folder), "install", "--no-deps", "--only-binary", ":all:", what], what=what)


def _pip(arguments: Sequence[str], *, what: str) -> None:
    command = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{what} is not available: pip did not finish within {INSTALL_TIMEOUT_S:g} s") from None
    if ended.returncode:
        raise HarnessError(f"{what} is not available: {_why(ended.stderr)}")


def _why(errors: str) -> str:
    """The last error of pip without its prefix, or else its last line."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (marked or lines or ["pip printed no reason"])[-1]


def _borrow(environment: Path) -> None:
    """Let an environment use this one's packages after its own, at their current paths."""
    (packages,) = environment.glob("lib/python*/site-packages")
    borrowed_from = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in borrowed_from)
    borrowed = packages / BORROWED
    if not borrowed.exists() or borrowed.read_text(encoding="utf-8") != lines:
        borrowed.write_text(lines, encoding="utf-8")
