"""The journal of a run: every step of every example as a line, on disk before the step is judged.

If the suite is killed, the journal has all steps up to then. Lines are JSON. The first line of an example has its
machine, and the lines after it have its steps.
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
    """Writes the journal, unbuffered, so that a kill of this process loses no line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def begin(self, number: int, machine: str) -> None:
        self._file.write(_encoder.encode(ExampleBegins(number, machine)) + b"\n")

    def record(self, step: Step) -> None:
        """Write one step of the example that began last."""
        self._file.write(_encoder.encode(JournalStep(step)) + b"\n")

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[ExampleBegins | JournalStep]:
    """Read a journal, up to a line that is not complete: the last one of a killed process, or one being written."""
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            yield _decoder.decode(line)
