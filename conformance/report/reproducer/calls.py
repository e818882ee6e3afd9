"""A reproducer as a list of calls of functions that the templates of all languages have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Language = Literal["Python", "Java"]

Argument: TypeAlias = "str | int | float | bool | Call | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function. ``options``: what the messages of a history seldom have, by name.

    ``is_later``: as an argument it is not a value, but what the function calls itself.
    """

    function: str
    arguments: tuple[Argument, ...] = ()
    options: dict[str, str | int] = field(default_factory=dict)
    is_later: bool = False


def call(function: str, *arguments: Argument) -> Call:
    return Call(function, arguments)


def later(function: str, *arguments: Argument) -> Call:
    return Call(function, arguments, is_later=True)
