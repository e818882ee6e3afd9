"""Another release of pulsar-client: an environment of its own, by whose Python the engine is run.

That environment holds that one package, and borrows all others from the one that the suite runs in: so the client is
the only difference. It is made with ``venv`` and ``pip`` on first use, and kept in the user's cache.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from conformance.brokers.obtaining.cache import cache_folder, sole_maker
from conformance.harness_error import HarnessError

INSTALL_TIMEOUT_S: Final = 600.0
"""How long fetching a client may take: some ten megabytes."""

BORROWED: Final = "borrowed.pth"
"""The file by which an environment has the packages of this one behind its own."""


def python_with_client(version: str, say: Callable[[str], None]) -> Path:
    """Give the Python of an environment with this release of pulsar-client, making it if it is not there yet.

    ``say`` receives one line before a step that takes long. Raises :class:`HarnessError`: it cannot be had.
    """
    here = f"{sys.implementation.cache_tag}-{platform.machine()}"
    place = cache_folder("clients") / f"pulsar-client-{version}-{here}"
    python = Path("bin", "python")
    if not place.exists():
        with sole_maker(place) as workshop:
            if not place.exists():
                say(f"Fetching pulsar-client {version} into an environment of its own ...")
                _make(workshop / "environment", version)
                (workshop / "environment").rename(place)
    _borrow(place)
    return place / python


def _make(folder: Path, version: str) -> None:
    """A new environment with nothing but this client in it."""
    client = f"pulsar-client=={version}"
    try:
        venv.create(folder, symlinks=True)
    except OSError as error:
        raise HarnessError(f"{client} cannot be had: no environment can be made for it: {error}") from error
    _pip(["--python", str(folder), "install", "--no-deps", "--only-binary", ":all:", client], what=client)


def _pip(arguments: Sequence[str], *, what: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{what} cannot be had: pip was not through in {INSTALL_TIMEOUT_S:g} s") from None
    if ended.returncode:
        raise HarnessError(f"{what} cannot be had: {_why(ended.stderr)}")


def _why(errors: str) -> str:
    """The last thing that pip calls an error, without its mark; otherwise the last that it said."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (marked or lines or ["pip did not say why"])[-1]


def _borrow(environment: Path) -> None:
    """Let an environment have this one's packages behind its own, wherever these are now."""
    (packages,) = environment.glob("lib/python*/site-packages")
    behind = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in behind)
    borrowed = packages / BORROWED
    if not borrowed.exists() or borrowed.read_text(encoding="utf-8") != lines:
        borrowed.write_text(lines, encoding="utf-8")
