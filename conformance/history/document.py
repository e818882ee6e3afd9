"""A history as a JSON document: the steps of one example in order, with the broker, clients and settings.

A violation is stored as such a document, ``replay`` reads it, and a report explains it. ``model.operations`` has the
types of operations and outcomes. Long recordings for Spark have another format (``parquet``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from conformance.brokers.settings import Base
from conformance.brokers.size import SMALLEST, Size
from conformance.files import content, write_whole
from conformance.harness_error import HarnessError
from conformance.history.unknown_fields import unknown_field
from conformance.rates import wilson
from model.example.step import Step as Step

FORMAT: Final = 5
"""The only format that this suite writes and reads."""
LARGEST_BYTES = 2**28
"""No history of one example is larger."""
ENOUGH_REPLAYS = 30
"""How often a history is replayed before it may be said that its violation does not come back."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A broken rule: the reason in one sentence, the step (from 1), and the evidence as lines.

    ``side``: the side of the wire that broke it, if a proxy saw that. ``is_overdue``: by something that did not happen
    before a wait ended, so on a machine that is too slow it may only have been late.
    """

    rule: str
    because: str
    step: int
    deviation: str | None = None
    evidence: tuple[str, ...] = ()
    side: Literal["client", "broker"] | None = None
    is_overdue: bool = False


class Replays(msgspec.Struct, frozen=True, kw_only=True):
    """How often a history was replayed, and how often the same rule broke."""

    tries: int
    came_back: int

    @property
    def are_in_vain(self) -> bool:
        """Whether the violation never came back in enough replays, and so is only suspected."""
        return self.tries >= ENOUGH_REPLAYS and self.came_back == 0

    @property
    def interval(self) -> tuple[float, float]:
        """The share of replays in which it comes back, as a 95 % confidence interval."""
        return wilson(self.came_back, self.tries)


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One example on one broker."""

    machine: str
    release: str
    broker: str
    clients: dict[str, str]
    seed: int
    settings: dict[str, str]
    """The settings that the suite gave the broker on top of the base's."""
    steps: tuple[Step, ...]
    violation: Violation | None = None
    defect: str | None = None
    replays: Replays | None = None
    minimal: bool = False
    left_out: int = 0
    """How many steps of the recording are left out, if this is a part of it that was not performed alone."""
    base: Base = "quick"
    size: Size = SMALLEST
    format: int = FORMAT


def replay_file(number: int) -> str:
    """The name of the file with what happened in a replay, counted from 1."""
    return f"replay-{number}.json"


def write(history: History, path: Path) -> None:
    """Write a history to ``path``; an existing file is replaced atomically."""
    write_whole(path, encode(history))


def encode(history: History) -> bytes:
    """The history as JSON with a line for each field and each step, so that a diff shows the changed step."""
    fields = {name: getattr(history, name) for name in history.__struct_fields__ if name != "steps"}
    lines = [msgspec.json.encode(name) + b": " + msgspec.json.encode(value) for name, value in fields.items()]
    steps = b",\n ".join(map(msgspec.json.encode, history.steps))
    return b"{\n" + b",\n".join([*lines, b'"steps": [\n ' + steps + b"\n]"]) + b"\n}\n"


def read(path: Path) -> History:
    """Read a history; HarnessError if the file is not one, or has an unknown field."""
    written = content(path)
    try:
        written_as = msgspec.json.decode(written, type=_Format).format
        if written_as != FORMAT:
            raise HarnessError(f"{path} has format {written_as}; this suite reads only format {FORMAT}")
        plain = msgspec.json.decode(written)
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
    """The only field that every format has."""

    format: int = FORMAT
