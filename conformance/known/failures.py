"""What a client is known to fail: lists, one name a line, that ``driver-test`` and ``check`` read.

A listed failure fails no run. One that passes is stale, and fails the run, unless it is only flaky.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.files import content
from conformance.harness_error import HarnessError
from model.rules import names

_COMMENT: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailures:
    """By the names of checks of drivers, or of rules."""

    failing: frozenset[str] = frozenset()
    flaky: frozenset[str] = frozenset()
    """Those that fail now and then."""

    def excuse(self, failed: str) -> str | None:
        """In which list a failure is; None if it is in none."""
        return "known" if failed in self.failing else "flaky" if failed in self.flaky else None


NO_FAILURES: Final = KnownFailures()


def read_failures(failing: Path | None, flaky: Path | None, *, kind: str, possible: Sequence[str]) -> KnownFailures:
    """The failures in two files. Raises :class:`HarnessError` if one names what is no ``kind``, such as a rule."""
    return KnownFailures(failing=_listed(failing, kind, possible), flaky=_listed(flaky, kind, possible))


def _listed(file: Path | None, kind: str, possible: Sequence[str]) -> frozenset[str]:
    """The names in a file, one a line; what follows a ``#`` is a comment."""
    if file is None:
        return frozenset()
    lines = (line.partition(_COMMENT)[0].strip() for line in content(file).decode().splitlines())
    listed = frozenset(line for line in lines if line)
    for name in sorted(listed.difference(possible)):
        raise HarnessError(f"{file}: {names.unknown(kind, name, possible)}")
    return listed
