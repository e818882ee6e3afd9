"""The journal of a run: every step of every example, a line each, on disk before it is judged.

It is for the case that the suite itself is ended in the middle: whatever was done up to then can be read. Lines are
JSON; an example begins with a line that names its machine, and all steps that follow it are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from conformance.history.document import Step


class ExampleBegins(msgspec.Struct, frozen=True, tag_field="line", tag="example"):
    """The first line of an example."""

    number: int
    machine: str


class JournalStep(msgspec.Struct, frozen=True, tag_field="line", tag="step"):
    """One step of the example that began last."""

    step: Step


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ExampleBegins | JournalStep)


class Journal:
    """Writes the journal; each line reaches the system at once, so that a kill of this process loses none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def begin(self, number: int, machine: str) -> None:
        """Begin an example."""
        self._file.write(_encoder.encode(ExampleBegins(number, machine)) + b"\n")

    def record(self, step: Step) -> None:
        """Write one step of the example that began last."""
        self._file.write(_encoder.encode(JournalStep(step)) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(path: Path) -> Iterator[ExampleBegins | JournalStep]:
    """Read a journal; a last line that was cut off is left out."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield _decoder.decode(line)
