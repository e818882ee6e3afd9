"""The systems that a run recorded: the broker's release, its clients, the changed settings.

The footer of every file has them, by run, so that they survive any end of the recording. ``verify`` chooses the known
deviations by them. A run of several clusters may have several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec


class About(msgspec.Struct, frozen=True, kw_only=True):
    """One system. ``clients``: versions by the names of runs (``official``: pulsar-client)."""

    release: str
    clients: dict[str, str] = {}
    settings: dict[str, str] = {}
    """The broker's settings that differ from the shipped ones."""


ByRun: TypeAlias = Mapping[str, tuple[About, ...]]
"""The systems of each run that recorded any."""


def as_footer(about: ByRun) -> bytes:
    return msgspec.json.encode(dict(about))


def of_footer(footer: bytes | str) -> dict[str, tuple[About, ...]]:
    """Read a footer. Raises ``msgspec.MsgspecError`` if it is something else."""
    return msgspec.json.decode(footer, type=dict[str, tuple[About, ...]])


def together(parts: Iterable[ByRun]) -> dict[str, tuple[About, ...]]:
    """The systems of several files, each once."""
    found: dict[str, tuple[About, ...]] = {}
    for part in parts:
        for run, systems in part.items():
            before = found.get(run, ())
            found[run] = (*before, *(about for about in systems if about not in before))
    return found
