"""Which settings a release has, and which values each can take, as its own files say it.

A broker starts with a setting that it does not have, and takes no notice of it; of a switch, every value but ``true``
is false. So both are refused before. The names and types of the broker's settings are the fields of its class
``ServiceConfiguration``, those of the bookie are constants of its configuration's classes;
the release also has all settings in its configuration files, commented out or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from conformance.brokers.settings.class_file import Field, fields_of
from conformance.brokers.settings.jars import Jars
from conformance.harness_error import HarnessError
from model.rules.names import unknown

_BROKER: Final = "org/apache/pulsar/broker/ServiceConfiguration.class"
_BOOKIE: Final = (
    "org/apache/bookkeeper/conf/AbstractConfiguration.class",
    "org/apache/bookkeeper/conf/ServerConfiguration.class",
    "org/apache/bookkeeper/bookie/storage/ldb/DbLedgerStorage.class",
)
_BOOKIE_FILE: Final = "bookkeeper.conf"
_FILES: Final = ("standalone.conf", "broker.conf", _BOOKIE_FILE)
_PREFIXES: Final = ("bookkeeper_", "brokerClient_")
"""The prefixes of the settings that a broker passes on to its BookKeeper and Pulsar clients."""
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
    """The possible values of a setting: of a kind (``text``: any), or one of ``values``; an integer of so many bits."""

    kind: str = "text"
    values: tuple[str, ...] = ()
    bits: int = 64

    def refusal(self, name: str, value: str) -> str | None:
        """Why a value is invalid; None if it is valid."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSettings:
    broker: Mapping[str, Descriptor]
    bookie: Mapping[str, Descriptor]
    """The settings that only its bookie has."""
    others: Mapping[str, Descriptor]
    """Other settings in its configuration files, for example those of authentication providers."""

    def refusal(self, name: str, value: str) -> str | None:
        """Why a broker of this release does not accept this setting; None if it does."""
        descriptor = self.broker.get(name) or self.bookie.get(name) or self.others.get(name)
        if descriptor is not None:
            return descriptor.refusal(name, value)
        return (
            None if name.startswith(_PREFIXES) else unknown("setting", name, [*self.broker, *self.bookie, *self.others])
        )


@cache
def known_settings(folder: Path) -> KnownSettings:
    """The settings of the release whose distribution is unpacked in a folder.

    Raises:
        HarnessError: its jars do not have the class of the broker's settings.
    """
    by_file = {file: _named_by(folder / "conf" / file) for file in _FILES}
    named = {name: one for file in reversed(_FILES) for name, one in by_file[file].items()}
    with Jars(folder) as jars:
        broker = {
            field.name: _descriptor(field, jars)
            for field in _fields(jars, _BROKER)
            if not field.is_static and field.descriptor != "Ljava/util/Properties;"
        }
        constants = {one.constant for file in _BOOKIE for one in _fields(jars, file) if one.constant is not None}
    if not broker:
        raise HarnessError(f"{folder / 'lib'} has no jar with the broker's settings.")
    bookie = (constants | by_file[_BOOKIE_FILE].keys()) - broker.keys()
    others = named.keys() - broker.keys() - bookie
    return KnownSettings(
        broker=broker,
        bookie={name: named.get(name, Descriptor()) for name in sorted(bookie)},
        others={name: named[name] for name in sorted(others)},
    )


def _fields(jars: Jars, file: str) -> tuple[Field, ...]:
    """The fields of a class; none if there is no such class."""
    found = jars.read(file)
    return () if found is None else fields_of(found)


def demand_known(folder: Path, settings: Mapping[str, str]) -> None:
    """Check that the release in a folder has these settings and accepts these values.

    Raises:
        HarnessError: it lacks a setting or does not accept a value.
    """
    known = known_settings(folder) if settings else None
    for name, value in settings.items():
        if known is not None and (refusal := known.refusal(name, value)) is not None:
            raise HarnessError(
                f"The broker cannot be given {name}={value}: {refusal}{'' if refusal.endswith('?') else '.'}"
            )


def _descriptor(field: Field, jars: Jars) -> Descriptor:
    if kind := _PRIMITIVES.get(field.descriptor):
        return Descriptor(kind, bits=_BITS.get(field.descriptor, 64))
    members = _fields(jars, f"{field.descriptor[1:-1]}.class") if field.descriptor.startswith("L") else ()
    return Descriptor(values=tuple(one.name for one in members if one.is_enum_constant))


def _named_by(file: Path) -> dict[str, Descriptor]:
    """The settings in a configuration file, with their kinds from the values there."""
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    given = [found for line in reversed(lines) if (found := _LINE.fullmatch(line))]
    return {one[1]: _like(one[2].strip()) for one in given}


def _like(value: str) -> Descriptor:
    if _is_boolean(value):
        return Descriptor("boolean")
    return Descriptor("integer" if re.fullmatch(r"-?\d+", value) else "text")
