"""Holes between acknowledgments, as many as wanted, with their outcomes (ACK-21).

They are in a topic of the suite's own beside a topic of the example, in its namespace: what happens to that topic or to
its broker happens to both. Messages go by their numbers in the log, and sets of them by progressions, so an operation
on hundreds of thousands is as short as one on ten. A new operation needs a class here, and a function for it, found by
its type, in :mod:`model.example.holes`, :mod:`conformance.lockstep.cursors.holes` (perform) and
:mod:`conformance.report.sentences.holes` (words). Machines draw them from :mod:`stateful.cursors.holes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import Struct

from model.vocabulary import Operation, Outcome


class Progression(Struct, frozen=True):
    """``count`` numbers from ``first`` on, ``step`` apart."""

    first: int
    step: int
    count: int

    def __iter__(self) -> Iterator[int]:
        return (self.first + self.step * number for number in range(self.count))


UNKNOWN = -1
"""The number of a message that was never sent."""


class MakeHoles(Operation, frozen=True, omit_defaults=True):
    """Send ``count`` messages, then acknowledge each ``stride``-th of all messages from number ``first`` on. HolesMade.

    The acks are individual, many in one command. ``awaits``: wait until the broker has persisted them.
    """

    request: ClassVar = "ack"
    may_be_cause: ClassVar = True

    topic: str
    count: int
    stride: int
    first: int = 0
    awaits: bool = False


class HolesMade(Outcome, frozen=True, omit_defaults=True):
    """All messages are stored, and the acks confirmed. ``ledgers``: how many messages each ledger has, in order."""

    ledgers: tuple[int, ...]
    is_persisted: bool = False


class ReceiveHoles(Operation, frozen=True):
    """A new consumer receives what is unacknowledged up to one more message, which is sent before. HolesReceived."""

    topic: str


class HolesReceived(Outcome, frozen=True, omit_defaults=True):
    """The messages in their order, with that last one. ``is_cut_short``: it did not arrive in time."""

    ledgers: tuple[int, ...]
    received: tuple[Progression, ...]
    is_cut_short: bool = False


HoleOperation = MakeHoles | ReceiveHoles
"""Every operation on holes."""

HoleOutcome = HolesMade | HolesReceived
"""Every outcome that only these have."""


def progressions(numbers: Iterable[int]) -> tuple[Progression, ...]:
    """Numbers in their order, as progressions."""
    found: list[Progression] = []
    for number in numbers:
        last = found[-1] if found else None
        if last is not None and (last.count == 1 or number == last.first + last.step * last.count):
            found[-1] = Progression(last.first, (number - last.first) // last.count, last.count + 1)
        else:
            found.append(Progression(number, 0, 1))
    return tuple(found)
