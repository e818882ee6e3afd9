"""Names that a user writes: the one sentence for a name that does not exist, with the name that was probably meant.

Rules, machines, defects, faults, variants, deviations, settings: every kind of name is refused in the same words.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

FEW = 12
"""So many names are listed in a sentence; more of them are listed by a command."""

NEAREST = 3
"""So many names are listed of more than a few, if no command lists them."""

LETTERS = 3
"""So many letters tell which name was meant, although several begin with them."""


def unknown(kind: str, name: str, names: Iterable[str], *, listed_by: str | None = None) -> str:
    """The sentence for a name of this kind that is not among ``names``; ``listed_by``: the command that lists them."""
    names = tuple(names)
    sentence = f"there is no {kind} {name!r}"
    if meant := nearest(name, names):
        return f"{sentence}; did you mean {meant!r}?"
    if len(names) <= FEW:
        return f"{sentence}; there are: {', '.join(names)}"
    if listed_by is not None:
        return f"{sentence}; `{listed_by}` lists them"
    return f"{sentence}; of the {len(names)} names the nearest are {', '.join(_by_likeness(name, names)[:NEAREST])}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is the same but for case and punctuation, or else the one most like it; None where none is.

    Of several names that begin with what was written, it is the shortest.
    """
    by_letters: dict[str, str] = {}
    for known in names:
        by_letters.setdefault(_letters(known), known)
    written = _letters(name)
    if not written:
        return None
    close = difflib.get_close_matches(written, by_letters, n=1)
    begun = [letters for letters in by_letters if letters.startswith(written)]
    found = close or (sorted(begun, key=len) if len(begun) == 1 or len(written) >= LETTERS else [])
    return by_letters[found[0]] if found else None


def _by_likeness(name: str, names: Iterable[str]) -> list[str]:
    """The names, first those that contain what was written, then those most like it."""
    written = _letters(name)

    def unlikeness(known: str) -> tuple[bool, float]:
        letters = _letters(known)
        return written not in letters, -difflib.SequenceMatcher(None, written, letters).ratio()

    return sorted(names, key=unlikeness)


def listed(text: str, *, kind: str, names: Collection[str], listed_by: str | None = None) -> tuple[str, ...]:
    """The names of this kind in ``text``, separated by commas.

    Raises ValueError, with one sentence, for a name that does not exist, and where nothing is between two commas.
    """
    written = tuple(part.strip() for part in text.split(","))
    for part in written:
        if not part:
            raise ValueError(f"{text!r} has an empty item; write names separated by single commas")
        if part not in names:
            raise ValueError(unknown(kind, part, names, listed_by=listed_by))
    return written


def _letters(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())
