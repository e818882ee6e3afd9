"""Decides when a shared broker is killed or restarted: once the examples of all lanes wait for it.

Each lane reports when an example begins and ends, and its next kill or restart. Nothing is done to the broker until
every running example waits. Then all lanes perform the most wanted operation, each as a step of its own history. A lane
that wanted another one performs this first, and waits again.

So each history has everything that happened to its broker, choices do not depend on other lanes, and each lane's
example exercises the kill. It is pure: it identifies lanes by number, and the engine acts on its decisions.
"""

from __future__ import annotations

from collections import Counter

from conformance.engine.lanes.protocol import Bounce
from model.operations import Kill


class Rendezvous:
    """The states of the lanes of one broker."""

    def __init__(self) -> None:
        self._in_example: set[int] = set()
        self._wants: dict[int, Bounce] = {}
        self._waits_to_begin: set[int] = set()
        self._has_begun_since: set[int] = set()
        self._agreed: Bounce | None = None
        self._expected: set[int] = set()
        self._arrived: set[int] = set()

    @property
    def is_imminent(self) -> bool:
        """Whether the lanes have agreed on a bounce that is not performed yet."""
        return self._agreed is not None

    def enters(self, lane: int) -> None:
        """A lane uses the broker: it is not bounced until this lane :meth:`leaves`."""
        self._in_example.add(lane)

    def begins(self, lane: int) -> None:
        """A lane wants to begin an example."""
        self._waits_to_begin.add(lane)

    def wants(self, lane: int, bounce: Bounce) -> None:
        """The example of a lane waits for this bounce."""
        if not self._wants:
            self._has_begun_since.clear()
        self._wants[lane] = bounce

    def arrives(self, lane: int) -> bool:
        """A lane is ready for the agreed bounce; whether it takes part in it."""
        if lane not in self._expected:
            return False
        self._arrived.add(lane)
        return True

    def leaves(self, lane: int) -> None:
        """The example of a lane has ended, or the lane has."""
        for lanes in (self._in_example, self._waits_to_begin, self._expected, self._arrived):
            lanes.discard(lane)
        self._wants.pop(lane, None)

    def may_begin(self) -> list[int]:
        """The lanes whose examples may begin now.

        None while a bounce is imminent. While others wait, each lane may begin one example: more would delay the
        others, and fewer would not exercise their bounce.
        """
        if self._agreed is not None:
            return []
        allowed = sorted(lane for lane in self._waits_to_begin if not (self._wants and lane in self._has_begun_since))
        self._waits_to_begin.difference_update(allowed)
        self._has_begun_since.update(allowed)
        self._in_example.update(allowed)
        return allowed

    @property
    def can_agree(self) -> bool:
        """Whether all lanes that have begun an example wait for a bounce."""
        return self._agreed is None and bool(self._wants) and self._wants.keys() >= self._in_example

    def agree(self) -> tuple[Bounce, list[int]] | None:
        """The most wanted bounce and its lanes, once all running examples wait for one."""
        if not self.can_agree:
            return None
        counted = Counter(self._wants.values())
        self._agreed = max(counted, key=lambda bounce: (counted[bounce], isinstance(bounce, Kill)))
        self._expected = set(self._wants)
        self._wants.clear()
        return self._agreed, sorted(self._expected)

    def due(self) -> tuple[Bounce, list[int]] | None:
        """The bounce for the engine to perform now, with its lanes, once all of these are ready; returned once."""
        if self._agreed is None or self._arrived != self._expected:
            return None
        done, lanes = self._agreed, sorted(self._arrived)
        self._agreed = None
        self._expected, self._arrived = set(), set()
        return (done, lanes) if lanes else None
