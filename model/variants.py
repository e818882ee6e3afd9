"""The common part of the variants of all documents: a name, an origin, switches."""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from msgspec import Struct


class Origin(enum.Enum):
    """The origin of a variant."""

    DEFECT = "a defect"
    RELEASE = "what releases do"
    ASSUMPTION = "an assumption of the document"
    READING = "the document by its letter"


V = TypeVar("V")


class NamedVariant(Struct, Generic[V], frozen=True, kw_only=True):
    """A variant: its name, its effect in one sentence, its origin and, for a release's, the place in its code.

    A variant of releases has the name of the deviation, if :mod:`model.deviations` has one.
    """

    name: str
    what: str
    origin: Origin
    variant: V
    code: str = ""


def switched_on(
    kind: type[V], switch: str, origin: Origin, what: str, code: str = "", *, prefix: str = ""
) -> NamedVariant[V]:
    """The variant that has one switch on, named after it: ``prefix`` (once), then the switch's own name."""
    name = prefix + switch.replace("_", "-").removeprefix(prefix)
    return NamedVariant(name=name, what=what, origin=origin, variant=kind(**{switch: True}), code=code)
