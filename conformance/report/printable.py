"""Texts of brokers, clients and files for people: the one boundary to terminals, logs of CI, pages and XML.

Such a text may move the cursor of a terminal, hide what follows it, or, in the log of a CI, be a command of the CI.
JSON and histories have it unchanged.
"""

from __future__ import annotations

import re
from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_ORDERS: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that separate lines or change the direction of writing."""

_NOT_XML: Final = (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF)
"""Surrogates, which no encoding has, and two more that XML forbids."""

_CHARACTERS: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **dict.fromkeys((*range(0x80, 0xA0), *_ORDERS, *_NOT_XML), _REPLACEMENT),
}

_COMMAND: Final = re.compile(r"^(?P<before>[^\S\n]*)(?P<first>:)(?=:)|(?P<other>#)(?=#[\w-]*\[)", re.MULTILINE)
"""What a CI takes for a command in its log: GitHub ``::error::`` at the beginning of a line and ``##[error]``, Azure
Pipelines ``##vso[``, TeamCity ``##teamcity[``."""


def printable(text: str) -> str:
    """The text with a sign for each control character, and without those that change the order of the others."""
    return text.translate(_CHARACTERS)


def in_log(text: str) -> str:
    """The same, and no line of it is a command of a CI."""
    return _COMMAND.sub(_harmless, printable(text))


def _harmless(command: re.Match[str]) -> str:
    return "\N{FULLWIDTH NUMBER SIGN}" if command["other"] else f"{command['before']}\N{RATIO}"
