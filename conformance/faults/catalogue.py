"""The catalogue of failpoints and seeded defects.

Those of the broker are files in ``rules``, with a folder for each document; those of the wire are in ``wire``. A file
has one of them: a header of comment lines (``# key: value``), then Byteman rules, whose names all begin with
``failpoint NAME`` or ``defect NAME``. The header names the settings that the changed code needs (``# setting:
NAME=VALUE``), how many brokers or bookies it needs (``# brokers: 2``), whether its code runs in a bookie
(``# process: bookie``), and whether it is in the brokers of one release only (``# release: newer``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance.brokers.size import Size
from conformance.faults.byteman import rule_names
from conformance.faults.defect import Defect
from conformance.faults.wire import WIRE_DEFECTS
from conformance.harness_error import HarnessError
from model.operations import OfTwo
from model.rules import names

_RULES = Path(__file__).parent / "rules"
_HEADER = re.compile(r"# (?P<key>[a-z]+): (?P<value>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailpointRules:
    """The Byteman rules of a fault that can be armed on one topic, for so many times."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDefect(Defect):
    """A small bug that can be switched on in a running broker, or in its bookies, for all topics.

    ``text``: its Byteman rules. ``release``: that of the brokers which have it, of two; None: all have it.
    """

    text: str
    is_of_bookie: bool = False
    release: OfTwo | None = None


@cache
def failpoints() -> tuple[FailpointRules, ...]:
    return tuple(fault for fault in _all() if isinstance(fault, FailpointRules))


@cache
def broker_defects() -> tuple[BrokerDefect, ...]:
    """All seeded defects of the broker, by name."""
    return tuple(fault for fault in _all() if isinstance(fault, BrokerDefect))


@cache
def defects() -> tuple[Defect, ...]:
    """All seeded defects, by name."""
    return tuple(sorted((*broker_defects(), *WIRE_DEFECTS), key=lambda defect: defect.name))


def find(name: str) -> Defect:
    """The defect of this name. Raises :class:`~conformance.harness_error.HarnessError` if there is none."""
    by_name = {defect.name: defect for defect in defects()}
    if name not in by_name:
        raise HarnessError(names.unknown("defect", name, by_name, listed_by="pulsar-conformance defects"))
    return by_name[name]


def find_failpoint(name: str) -> FailpointRules:
    """The failpoint of this name. Raises KeyError if there is none (users do not enter these names)."""
    return {failpoint.name: failpoint for failpoint in failpoints()}[name]


def parse(file_name: str, text: str) -> FailpointRules | BrokerDefect:
    """Read one rule file. Raises ValueError with the reason if it is invalid."""
    lines = list(_read_header(text))
    header = dict(lines)
    kinds = header.keys() & {"failpoint", "defect"}
    if len(kinds) != 1:
        raise ValueError(f"{file_name}: its header needs 'failpoint' or 'defect'")
    kind = kinds.pop()
    name = header[kind]
    if file_name != f"{name}.btm":
        raise ValueError(f"{file_name}: its header says that it is '{name}'")
    rules = rule_names(text)
    if not rules or not all(rule.startswith(f"{kind} {name}") for rule in rules):
        raise ValueError(f"{file_name}: its rules need names that begin with '{kind} {name}'; found {rules}")
    if kind == "failpoint":
        return FailpointRules(name=name, text=text)
    if not header.keys() >= {"breaks", "summary"}:
        raise ValueError(f"{file_name}: its header needs 'breaks', the rule that it breaks, and 'summary'")
    settings = tuple(_read_setting(file_name, value) for key, value in lines if key == "setting")
    return BrokerDefect(
        name=name,
        breaks=header["breaks"],
        summary=header["summary"],
        text=text,
        settings=settings,
        size=Size(brokers=int(header.get("brokers", "1")), bookies=int(header.get("bookies", "1"))),
        family=header.get("family"),
        is_of_bookie=header.get("process") == "bookie",
        release=_read_release(file_name, header.get("release")),
    )


def _read_header(text: str) -> Iterable[tuple[str, str]]:
    """The ``# key: value`` lines at the top of a file."""
    for line in text.splitlines():
        found = _HEADER.fullmatch(line)
        if found is None:
            return
        yield found["key"], found["value"]


def _read_setting(file_name: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"{file_name}: a setting is written NAME=VALUE, not {text!r}")
    return name, value


def _read_release(file_name: str, text: str | None) -> OfTwo | None:
    match text:
        case None | "older" | "newer":
            return text
        case _:
            raise ValueError(f"{file_name}: a release is older or newer, not {text!r}")


def _all() -> list[FailpointRules | BrokerDefect]:
    rules = (parse(file.name, file.read_text(encoding="utf-8")) for file in _RULES.glob("*/*.btm"))
    return sorted(rules, key=lambda fault: fault.name)
