"""The options of the commands that are more than text or a number: read, checked, and explained when they are wrong."""

from __future__ import annotations

import re
from typing import Any, get_args

import click

from conformance.soak.words import FaultName
from model.catalogue import Rule, select

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SETTING = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)=(?P<value>[^\r\n]*)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+([a-z0-9.]*)")
_MACHINE = re.compile(r"\w+(-\w+)*")


class Duration(click.ParamType[float]):
    """A time such as ``90s``, ``10m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The time in seconds; more than none."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(value.strip())
        seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is no time; write it like 90s, 10m or 2h", param, ctx)
        return seconds


class Rules(click.ParamType[tuple[Rule, ...]]):
    """Ids and families of rules, separated by commas."""

    name = "rules"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Rule, ...]:
        """The rules, in the order of the catalogue."""
        if isinstance(value, tuple):
            return value
        try:
            return select(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Setting(click.ParamType[tuple[str, str]]):
    """A setting of the broker, ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Its name, as in ``broker.conf``, and its value."""
        if isinstance(value, tuple):
            return value
        found = _SETTING.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no setting; write it like maxMessageSize=10240", param, ctx)
        return found["name"], found["value"]


class ClientRelease(click.ParamType[str]):
    """A release of pulsar-client, such as ``3.12.0``."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The release; that there is one is found out when it is fetched."""
        text = str(value).strip()
        if not _RELEASE.fullmatch(text):
            self.fail(f"{value!r} is no release of pulsar-client; write it like 3.12.0", param, ctx)
        return text


class Machines(click.ParamType[tuple[str, ...]]):
    """Names of machines, separated by commas."""

    name = "machines"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names; that there are such machines is found out by the engine."""
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names or not all(_MACHINE.fullmatch(name) for name in names):
            self.fail(f"{value!r} does not name machines; write words separated by commas", param, ctx)
        return names


class Faults(click.ParamType[frozenset[FaultName]]):
    """Names of a soak's faults, separated by commas, or ``none``."""

    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[FaultName]:
        """The faults."""
        if isinstance(value, frozenset):
            return value
        names = frozenset(part.strip() for part in value.split(",") if part.strip()) - {"none"}
        known = frozenset(get_args(FaultName))
        if unknown := names - known:
            self.fail(f"there is no fault {min(unknown)!r}; there are: {', '.join(sorted(known))}, none", param, ctx)
        return known & names
