"""The choices of earlier runs: a file that runs add to, what it lacks, and which rules of machines may draw that.

No verdict depends on the file; only which operations are drawn does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

import msgspec

from conformance.coverage.choices import NOTHING, Choices, is_kill
from conformance.files import content
from conformance.harness_error import HarnessError

USUAL_SHARE: Final = 0.2
"""A rule that begins with an operation less often than this is not expected to do so."""
TRIES: Final = 5
"""After a rule was preferred so often for a choice and drew another one, it is no longer preferred for it."""


Choice = Annotated[str, msgspec.Meta(pattern="^[^:]+: [^>]+ > [^>]+( > [^>]+)?$")]
Opening = Annotated[str, msgspec.Meta(pattern="^[^>]+ > [^>]+$")]


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of an example or a run.

    ``choices``: how often each was drawn. ``tried``: how often a rule was preferred for one. ``openings``: what each
    rule of a machine began with, and how often, written ``machine.rule > kind``.
    """

    choices: dict[Choice, int] = {}
    tried: dict[Choice, int] = {}
    openings: dict[Opening, int] = {}

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(
            choices=_sum(self.choices, other.choices),
            tried=_sum(self.tried, other.tried),
            openings=_sum(self.openings, other.openings),
        )


class Coverage:
    """What earlier runs have drawn."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn: Final = drawn
        self._usual = _usual_openings(drawn.openings)

    @classmethod
    def read(cls, file: Path) -> Self:
        """The coverage in a file; none if it does not exist yet. Raises HarnessError for another kind of file."""
        if not file.exists():
            return cls(Drawn())
        try:
            return cls(msgspec.json.decode(content(file), type=Drawn))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HarnessError(f"{file} is no coverage that a check has written: {error}") from error

    def write(self, file: Path) -> None:
        """Write it to a file, with the most frequent choices first."""
        by_count = Drawn(
            choices=dict(Counter(self.drawn.choices).most_common()),
            tried=dict(Counter(self.drawn.tried).most_common()),
            openings=dict(sorted(self.drawn.openings.items())),
        )
        try:
            file.write_bytes(msgspec.json.format(msgspec.json.encode(by_count)) + b"\n")
        except OSError as error:
            raise HarnessError(f"the coverage cannot be written to {file}: {error.strerror}") from error

    def lacking(self, rule: str, choices: Choices) -> list[str]:
        """What a rule may draw next that no run has drawn."""
        return [
            choice
            for kind in self._usual.get(rule, ())
            for choice in choices.following(kind)
            if choice not in self.drawn.choices and self.drawn.tried.get(choice, 0) < TRIES
        ]


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """What was never drawn with one subscription type or setting, of the operations that were drawn with it.

    ``pairs``: how many pairs of operations were. ``never_after``: after each operation, those that never followed it.
    ``never_killed``: the operations after which no broker ever went away.
    """

    pairs: int
    never_after: dict[str, list[str]]
    never_killed: list[str]


def gaps(drawn: Drawn) -> dict[str, Gaps]:
    """What was never drawn, by subscription type or setting."""
    followed: dict[str, dict[str, set[str]]] = {}
    for choice in drawn.choices:
        one, order = choice.split(": ", 1)
        match order.split(" > "):
            case [first, then] if first != NOTHING:
                followed.setdefault(one, {}).setdefault(first, set()).add(then)
            case _:
                pass
    return {one: _gaps(after) for one, after in sorted(followed.items())}


def _gaps(after: Mapping[str, set[str]]) -> Gaps:
    kinds = set(after).union(*after.values())
    never = {first: sorted(kinds - after.get(first, set())) for first in sorted(kinds)}
    return Gaps(
        pairs=sum(map(len, after.values())),
        never_after={first: lacks for first, lacks in never.items() if lacks},
        never_killed=[
            first for first in sorted(kinds) if not is_kill(first) and not any(map(is_kill, after.get(first, set())))
        ],
    )


def _usual_openings(openings: Mapping[str, int]) -> dict[str, list[str]]:
    by_rule: dict[str, Counter[str]] = {}
    for opening, times in openings.items():
        rule, kind = opening.split(" > ")
        by_rule.setdefault(rule, Counter())[kind] += times
    return {
        rule: [kind for kind, times in kinds.items() if times >= USUAL_SHARE * kinds.total()]
        for rule, kinds in by_rule.items()
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(one) + Counter(other))
