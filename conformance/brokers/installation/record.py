"""How an assembled release came to be, as its folder records it, and what stands in for what is not published."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

ORIGIN_FILE: Final = "assembled.json"
"""In the folder of an assembled release."""
_OWN_CONFIGURATION: Final = "conf/standalone.conf"
_DEFAULTS: Final = "the defaults of its code"


class Substitute(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that is not published, and the version that is used instead, as text."""

    missing: str
    used: str

    def __str__(self) -> str:
        return f"{self.used} instead of {self.missing}"


class AssemblyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How an assembled release came to be."""

    version: str
    jars: int
    has_own_configuration: bool
    """Whether its configuration files are the release's own."""
    seconds: float
    substitutes: tuple[Substitute, ...] = ()
    """What stands in for artifacts that are not published."""

    @property
    def stand_ins(self) -> dict[str, str]:
        """By what is not published, a configuration file included, what is used instead."""
        artifacts = {one.missing: one.used for one in self.substitutes}
        return artifacts if self.has_own_configuration else {_OWN_CONFIGURATION: _DEFAULTS, **artifacts}


def origin_of(folder: Path) -> AssemblyRecord | None:
    """How the release in a folder came to be; None for an unpacked distribution."""
    file = folder / ORIGIN_FILE
    return msgspec.json.decode(file.read_bytes(), type=AssemblyRecord) if file.exists() else None
