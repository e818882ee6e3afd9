"""What was measured: one line of a file for each hunt for one seeded defect, in one way, with one seed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

Way = Literal["one lane", "lanes", "uniform"]
"""The machines with one example at a time, in lanes, and a machine in lanes that drew uniformly (since deleted)."""
WAYS: Final[tuple[Way, ...]] = get_args(Way)
MEASURED_WAYS: Final[tuple[Way, ...]] = ("one lane", "lanes")
"""The ways that can still be measured."""

MEASURED: Final = Path(__file__).parent / "measured.jsonl"


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """How long a hunt took until a rule of the defect's family was broken, on a broker that had started before.

    ``operations``: those performed until then, in all lanes. If it was not ``found``, the hunt was over after
    ``seconds``. ``rule``: the rule that was broken; ``machine``: the machine that broke it. ``first_s``: when the first
    example had ended, which shows how long lanes take to start.
    """

    date: str
    release: str
    way: Way
    defect: str
    seed: int
    seconds: float
    operations: int
    found: bool
    rule: str | None = None
    machine: str | None = None
    first_s: float | None = None

    @property
    def is_of(self) -> tuple[Way, str, int]:
        return self.way, self.defect, self.seed


def read(path: Path) -> list[Measurement]:
    """All measurements of a file; none if there is no such file."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Measurement) for line in path.read_bytes().splitlines()]


def append(path: Path, measured: Iterable[Measurement]) -> None:
    with path.open("ab") as file:
        for one in measured:
            file.write(msgspec.json.encode(one) + b"\n")
