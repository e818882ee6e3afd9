"""Variants of a reference: each has one difference from its document.

They show what each sentence of a document is for. A reference's variant is a struct of switches, all off by default.
Each switch is annotated with its effect and origin; :func:`variants_of` makes a variant with a name of each.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar, get_type_hints

from msgspec import Struct


class Origin(enum.Enum):
    """The origin of a variant."""

    DEFECT = "a defect"
    RELEASE = "what releases do"
    ASSUMPTION = "an assumption of the document"
    READING = "the document by its letter"


class Difference(Struct, frozen=True, kw_only=True):
    """The annotation of a switch."""

    what: str
    """The effect in one sentence."""
    origin: Origin
    code: str = ""
    """The place in a release's code."""


def defect(what: str) -> Difference:
    """A difference that a broker could have."""
    return Difference(what=what, origin=Origin.DEFECT)


def release(what: str, code: str) -> Difference:
    """The behavior of a released broker or client. If it is a deviation, the switch has the deviation's name."""
    return Difference(what=what, origin=Origin.RELEASE, code=code)


def assumption(what: str) -> Difference:
    """The opposite of what the document silently assumes of the log or its clients."""
    return Difference(what=what, origin=Origin.ASSUMPTION)


def reading(what: str) -> Difference:
    """A sentence of the document taken literally."""
    return Difference(what=what, origin=Origin.READING)


V = TypeVar("V")


class NamedVariant(Struct, Generic[V], frozen=True, kw_only=True):
    """A variant that has one switch on."""

    name: str
    what: str
    origin: Origin
    variant: V
    code: str = ""


def variants_of(kind: type[V], *, prefix: str = "") -> tuple[NamedVariant[V], ...]:
    """A variant for each switch, named after it: ``prefix`` (once), then the switch's own name."""
    return tuple(
        NamedVariant(
            name=prefix + switch.replace("_", "-").removeprefix(prefix),
            what=difference.what,
            origin=difference.origin,
            variant=kind(**{switch: True}),
            code=difference.code,
        )
        for switch, hint in get_type_hints(kind, include_extras=True).items()
        for difference in getattr(hint, "__metadata__", ())
        if isinstance(difference, Difference)
    )
