"""What a run's events were recorded against: the broker's release, its clients, the settings that were changed.

It stands in the footer of every file, by run, so that it is there however a recording ended. ``verify`` needs it to
know which deviations are known there. A run of several clusters may tell of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec


class About(msgspec.Struct, frozen=True, kw_only=True):
    """One system. ``clients``: versions by the names that runs tell of them (``official``: pulsar-client)."""

    release: str
    clients: dict[str, str] = {}
    settings: dict[str, str] = {}
    """The broker's, where they are not what the release ships with."""


ByRun: TypeAlias = Mapping[str, tuple[About, ...]]
"""What is told of each run; of one that nothing is told of there is nothing."""


def as_footer(told: ByRun) -> bytes:
    """As it is written."""
    return msgspec.json.encode(dict(told))


def of_footer(footer: bytes | str) -> dict[str, tuple[About, ...]]:
    """As it was written. Raises ``msgspec.MsgspecError`` where it is something else."""
    return msgspec.json.decode(footer, type=dict[str, tuple[About, ...]])


def together(parts: Iterable[ByRun]) -> dict[str, tuple[About, ...]]:
    """What several files tell, each thing once."""
    found: dict[str, tuple[About, ...]] = {}
    for part in parts:
        for run, told in part.items():
            before = found.get(run, ())
            found[run] = (*before, *(about for about in told if about not in before))
    return found
