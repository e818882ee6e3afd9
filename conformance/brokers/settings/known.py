"""Which settings a release has, and which values each can take, as its own files say it.

A broker starts with a setting that it does not have, and takes no notice of it; of a switch, every value but ``true``
is false. So both are refused before. The names and types of the broker's settings are the fields of its class
``ServiceConfiguration``, those of the bookie, which reads the same file, are constants of its configuration's classes;
and whatever the release's configuration files name, commented out or not, it has as well.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from conformance.brokers.settings.class_file import Field, fields_of
from conformance.harness_error import HarnessError
from model.rules.names import unknown

_BROKER: Final = "org/apache/pulsar/broker/ServiceConfiguration.class"
_BOOKIE: Final = (
    "org/apache/bookkeeper/conf/AbstractConfiguration.class",
    "org/apache/bookkeeper/conf/ServerConfiguration.class",
    "org/apache/bookkeeper/bookie/storage/ldb/DbLedgerStorage.class",
)
_FILES: Final = ("standalone.conf", "broker.conf", "bookkeeper.conf")
_PREFIXES: Final = ("bookkeeper_", "brokerClient_")
"""How the names begin that a broker passes on to its clients of BookKeeper and Pulsar, whatever follows."""
_APACHE: Final = re.compile(r"pulsar|bookkeeper")
"""In the names of the jars that have these classes."""
_LINE: Final = re.compile(r"#?\s*([A-Za-z_][\w.-]*)=(.*)")

_PRIMITIVES: Final[Mapping[str, str]] = {
    "Z": "boolean",
    "I": "integer",
    "J": "integer",
    "S": "integer",
    "D": "number",
    "F": "number",
    "Ljava/lang/Boolean;": "boolean",
    "Ljava/lang/Integer;": "integer",
    "Ljava/lang/Long;": "integer",
    "Ljava/lang/Double;": "number",
}
_BITS: Final = {"I": 32, "S": 16, "Ljava/lang/Integer;": 32}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What values a setting can take: of a kind (``text``: any), or one of ``values``; an integer of so many bits."""

    kind: str = "text"
    values: tuple[str, ...] = ()
    bits: int = 64

    def refusal(self, name: str, value: str) -> str | None:
        """Why it cannot take a value; None if it can."""
        if self.values:
            return None if value in self.values else f"{name} takes one of {', '.join(self.values)}, not {value!r}"
        taken = {"boolean": _is_boolean, "integer": self._is_integer, "number": _is_number}.get(self.kind)
        if taken is None or taken(value):
            return None
        what = "true or false" if self.kind == "boolean" else f"{'an' if self.kind == 'integer' else 'a'} {self.kind}"
        return f"{name} takes {what}, not {value!r}"

    def _is_integer(self, value: str) -> bool:
        return bool(re.fullmatch(r"[+-]?\d{1,19}", value)) and -1 << self.bits - 1 <= int(value) < 1 << self.bits - 1


def _is_boolean(value: str) -> bool:
    return value.casefold() in ("true", "false")


def _is_number(value: str) -> bool:
    return bool(re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", value))


@dataclass(frozen=True, slots=True)
class KnownSettings:
    broker: Mapping[str, Descriptor]
    others: Mapping[str, Descriptor]
    """Those of its bookie, and what else its configuration files name."""

    def refusal(self, name: str, value: str) -> str | None:
        """Why a broker of this release cannot be given this setting; None if it can."""
        descriptor = self.broker.get(name) or self.others.get(name)
        if descriptor is not None:
            return descriptor.refusal(name, value)
        return None if name.startswith(_PREFIXES) else unknown("setting", name, [*self.broker, *self.others])


@cache
def known_settings(folder: Path) -> KnownSettings:
    """The settings of the release whose distribution is unpacked in a folder.

    Raises:
        HarnessError: its jars do not have the class of the broker's settings.
    """
    named = _named_by_files(folder / "conf")
    jars = [jar for jar in sorted((folder / "lib").glob("*.jar")) if _APACHE.search(jar.name)]
    with ExitStack() as open_jars:
        classes = _Classes([open_jars.enter_context(zipfile.ZipFile(jar)) for jar in jars])
        broker = {
            field.name: _descriptor(field, classes)
            for field in classes.fields(_BROKER)
            if not field.is_static and field.descriptor != "Ljava/util/Properties;"
        }
        of_bookie = [one.constant for file in _BOOKIE for one in classes.fields(file) if one.constant is not None]
    if not broker:
        raise HarnessError(f"{folder / 'lib'} has no jar with the broker's settings.")
    others = {**{name: Descriptor() for name in of_bookie}, **named}
    return KnownSettings(broker, {name: one for name, one in others.items() if name not in broker})


class _Classes:
    """The classes of several jars."""

    def __init__(self, jars: Sequence[zipfile.ZipFile]) -> None:
        self._jars = {name: jar for jar in jars for name in jar.namelist() if name.endswith(".class")}

    def fields(self, file: str) -> tuple[Field, ...]:
        """The fields of a class; none where it is not there."""
        jar = self._jars.get(file)
        return () if jar is None else fields_of(jar.read(file))


def demand_known(folder: Path, settings: Mapping[str, str]) -> None:
    """See to it that the release in a folder has these settings, and that they can take these values.

    Raises:
        HarnessError: one that it does not have, or a value that it cannot take.
    """
    known = known_settings(folder) if settings else None
    for name, value in settings.items():
        if known is not None and (refusal := known.refusal(name, value)) is not None:
            raise HarnessError(
                f"The broker cannot be given {name}={value}: {refusal}{'' if refusal.endswith('?') else '.'}"
            )


def _descriptor(field: Field, classes: _Classes) -> Descriptor:
    if kind := _PRIMITIVES.get(field.descriptor):
        return Descriptor(kind, bits=_BITS.get(field.descriptor, 64))
    members = classes.fields(f"{field.descriptor[1:-1]}.class") if field.descriptor.startswith("L") else ()
    return Descriptor(values=tuple(one.name for one in members if one.is_enum_constant))


def _named_by_files(folder: Path) -> dict[str, Descriptor]:
    """What the configuration files name; a value that is given there says of which kind it is."""
    found: dict[str, Descriptor] = {}
    for file in _FILES:
        if (folder / file).is_file():
            for line in (folder / file).read_text("utf-8").splitlines():
                if given := _LINE.fullmatch(line):
                    found.setdefault(given[1], _like(given[2].strip()))
    return found


def _like(value: str) -> Descriptor:
    if _is_boolean(value):
        return Descriptor("boolean")
    return Descriptor("integer" if re.fullmatch(r"-?\d+", value) else "text")
