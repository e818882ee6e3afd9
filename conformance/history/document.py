"""A history as one document: the steps of one example, in order, with what they ran against.

It is what ``replay`` reads, what a report explains, and what a violation is kept as. The file is JSON, one document a
file, with every operation and outcome typed by ``model.operations``. Long recordings for Spark are not this.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import msgspec

from conformance.brokers.settings import Base
from conformance.brokers.size import SMALLEST, Size
from conformance.files import content
from conformance.harness_error import HarnessError
from conformance.history.unknown_fields import unknown_field
from conformance.history.upgrade import FORMAT, upgraded
from model.cursors.cursor import Interval
from model.events import AnyOutcome, Late
from model.operations import AnyOperation
from model.service.unexpected import Unexpected

LARGEST_BYTES = 2**28
"""No history of one example is larger."""
ENOUGH_REPLAYS = 30
"""How often a history is replayed before it may be said that its violation does not come back."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One operation with its outcome; times in milliseconds since the history began."""

    operation: AnyOperation
    outcome: AnyOutcome
    invoked_ms: float
    completed_ms: float
    late: tuple[Late, ...] = ()
    """Answers to earlier sends that were not awaited; they are judged before this operation."""
    unexpected: tuple[Unexpected, ...] = ()
    """What the broker did beside the outcome; it is judged first."""

    @property
    def at(self) -> Interval:
        """When it was performed, as the model has it."""
        return Interval(self.invoked_ms, self.completed_ms)


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was broken: which, why in one sentence, at which step (from 1), and the evidence in lines of text.

    ``side``: on which side of the wire it happened, where that was watched.
    """

    rule: str
    because: str
    step: int
    deviation: str | None = None
    evidence: tuple[str, ...] = ()
    side: Literal["client", "broker"] | None = None


class Replays(msgspec.Struct, frozen=True, kw_only=True):
    """How often a history was run again, and in how many of these the same rule broke."""

    tries: int
    came_back: int

    @property
    def are_in_vain(self) -> bool:
        """Whether it was replayed often enough, and never came back: what it shows is only suspected."""
        return self.tries >= ENOUGH_REPLAYS and self.came_back == 0

    @property
    def interval(self) -> tuple[float, float]:
        """In what part of all replays it comes back, with a confidence of 95 %, from the least to the most.

        This is Wilson's score interval (Journal of the American Statistical Association 22, 1927), which also holds
        where nothing came back, or everything.
        """
        if not self.tries:
            return 0.0, 1.0
        z, n, rate = NormalDist().inv_cdf(0.975), self.tries, self.came_back / self.tries
        middle = rate + z * z / (2 * n)
        spread = z * math.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2)
        low, high = ((middle + side * spread) / (1 + z * z / n) for side in (-1, 1))
        return max(0.0, low), min(1.0, high)


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One example on one broker."""

    machine: str
    release: str
    broker: str
    clients: dict[str, str]
    seed: int
    settings: dict[str, str]
    """What the suite gave the broker, and all of it that is not in the base's own configuration."""
    steps: tuple[Step, ...]
    violation: Violation | None = None
    defect: str | None = None
    replays: Replays | None = None
    minimal: bool = False
    left_out: int = 0
    """How many steps of the recording are left out, where this is a part of it that was not performed by itself."""
    base: Base = "quick"
    size: Size = SMALLEST
    format: int = FORMAT


def write(history: History, path: Path) -> None:
    """Write a history to ``path``, replacing an existing file in one step."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(encode(history))
    temporary.replace(path)


def encode(history: History) -> bytes:
    """The history as JSON with a line for each field and for each step, so that a diff shows the step that changed."""
    fields = {name: getattr(history, name) for name in history.__struct_fields__ if name != "steps"}
    lines = [msgspec.json.encode(name) + b": " + msgspec.json.encode(value) for name, value in fields.items()]
    steps = b",\n ".join(map(msgspec.json.encode, history.steps))
    return b"{\n" + b",\n".join([*lines, b'"steps": [\n ' + steps + b"\n]"]) + b"\n}\n"


def read(path: Path) -> History:
    """Read a history; HarnessError, in one sentence, when the file is not one, or says what this suite does not
    know."""
    written = content(path)
    try:
        written_as = msgspec.json.decode(written, type=_Format).format
        if not 1 <= written_as <= FORMAT:
            raise HarnessError(f"{path} has format {written_as}; this suite reads formats 1 to {FORMAT}")
        plain = upgraded(msgspec.json.decode(written), written_as)
        history = msgspec.convert(plain, type=History)
        unknown = unknown_field(plain, history)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} is not a history of this suite: {error}") from error
    except RecursionError as error:
        raise HarnessError(f"{path} is not a history of this suite: it is nested too deeply") from error
    if unknown is not None:
        raise HarnessError(f"{path} is not a history of this suite: it has an unknown field, {unknown}")
    return history


class _Format(msgspec.Struct, frozen=True):
    """What is looked at first: all else may differ in another format."""

    format: int = FORMAT
