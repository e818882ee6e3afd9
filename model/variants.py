"""What the variants of all documents share: a name, an origin, switches."""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from msgspec import Struct


class Origin(enum.Enum):
    """Where a variant comes from."""

    DEFECT = "a defect"
    RELEASE = "what releases do"
    ASSUMPTION = "an assumption of the document"
    READING = "the document by its letter"


V = TypeVar("V")


class NamedVariant(Struct, Generic[V], frozen=True, kw_only=True):
    """A variant with its name, what it does in one sentence, its origin, and for a release's the place in its code.

    The name of what releases do is that of the deviation, where :mod:`model.deviations` has one.
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
