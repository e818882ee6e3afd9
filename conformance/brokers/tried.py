"""The releases that the suite has tried: how each was obtained, and the result of a short check, as data.

``python -m tests.quality.releases`` extends ``tried.json``; the documentation has a table of it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

FILE: Final = Path(__file__).with_name("tried.json")

How = Literal["tarball", "assembled", "not available"]
"""From its server distribution, from its artifacts, or not at all."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a release."""

    date: str
    client: str
    rules: str
    seed: int
    seconds: float
    exit_status: int
    operations: int
    verdicts: dict[str, int]
    violated: tuple[str, ...] = ()
    harness_error: str | None = None


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step takes until the next message is confirmed, on a single broker.

    ``takeover``: the owner of a topic is killed, and another broker confirms the message.
    """

    start: float
    kill: float
    takeover: float


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A release.

    ``why`` it is not available, or was not checked; ``jars`` and ``seconds`` are of assembling it, ``steps`` of a
    broker. ``rest``: a check of the rules that ``check`` did not exercise.
    """

    version: str
    how: How
    why: str | None = None
    jars: int | None = None
    has_own_configuration: bool = True
    seconds: float | None = None
    steps: Seconds | None = None
    check: Check | None = None
    rest: Check | None = None


@cache
def tried() -> tuple[Tried, ...]:
    """All releases that were tried, the oldest first."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[Tried, ...])
