"""Reads what a compiled Java class declares: the Java that it is for, and its fields' names, types and constants.

Of the format (chapter 4 of the Java Virtual Machine specification) it knows what lies before the methods.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STATIC: Final = 0x0008
ENUM: Final = 0x4000
_MAGIC: Final = 0xCAFEBABE
_FORMAT_OF_JAVA_0: Final = 44
"""Each Java has a format of its own, numbered on from this."""
_UTF8, _STRING, _LONG, _DOUBLE = 1, 8, 5, 6
_SIZES: Final = {3: 4, 4: 4, _LONG: 8, _DOUBLE: 8, 7: 2, _STRING: 2, 9: 4, 10: 4, 11: 4, 12: 4}
_SIZES_OF_NEWER: Final = {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""The bytes of each kind of constant, by its tag; a text says its own length."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field: ``descriptor`` is its type as class files write it, ``constant`` its text, if it is a constant one."""

    name: str
    descriptor: str
    flags: int
    constant: str | None = None

    @property
    def is_static(self) -> bool:
        return bool(self.flags & STATIC)

    @property
    def is_enum_constant(self) -> bool:
        """Whether it is one of the values of an enumeration."""
        return bool(self.flags & ENUM)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._texts: dict[int, str] = {}
        self._strings: dict[int, int] = {}

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self._content, self._at)
        self._at += struct.calcsize(f">{layout}")
        return int(value)

    def constants(self) -> None:
        number, count = 1, self.number("H")
        while number < count:
            tag = self.number("B")
            if tag == _UTF8:
                size = self.number("H")
                self._texts[number] = self._content[self._at : self._at + size].decode("utf-8", "replace")
                self._at += size
            elif tag == _STRING:
                self._strings[number] = self.number("H")
            else:
                self._at += {**_SIZES, **_SIZES_OF_NEWER}[tag]
            number += 2 if tag in (_LONG, _DOUBLE) else 1

    def fields(self) -> Iterator[Field]:
        for _ in range(self.number("H")):
            flags, name, descriptor = self.number("H"), self.number("H"), self.number("H")
            constant = None
            for _ in range(self.number("H")):
                kind, size = self._texts[self.number("H")], self.number("I")
                if kind == "ConstantValue":
                    (value,) = struct.unpack_from(">H", self._content, self._at)
                    constant = self._texts.get(self._strings.get(value, 0))
                self._at += size
            yield Field(self._texts[name], self._texts[descriptor], flags, constant)

    def skip(self, size: int) -> None:
        self._at += size

    def magic(self) -> None:
        """Read what every class file begins with."""
        if self.number("I") != _MAGIC:
            raise ValueError("this is not a class file")


def java_of(content: bytes) -> int:
    """The oldest Java that loads a class.

    Raises:
        ValueError: this is not a class file.
    """
    reader = _Reader(content)
    try:
        reader.magic()
        reader.skip(2)  # the minor version
        return reader.number("H") - _FORMAT_OF_JAVA_0
    except struct.error as error:
        raise ValueError("this is not a class file") from error


def fields_of(content: bytes) -> tuple[Field, ...]:
    """The fields that a class declares itself.

    Raises:
        ValueError: this is not a class file.
    """
    reader = _Reader(content)
    try:
        reader.magic()
        reader.skip(4)  # the version of the format
        reader.constants()
        reader.skip(6)  # access, this class, its superclass
        reader.skip(2 * reader.number("H"))  # the interfaces
        return tuple(reader.fields())
    except (struct.error, KeyError) as error:
        raise ValueError("this is not a class file") from error
