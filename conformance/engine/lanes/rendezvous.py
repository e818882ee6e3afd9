"""When the broker is killed or restarted, where lanes share it: once all their examples have come to that.

Each lane says when an example begins and ends, and what it is about to do to the broker. The broker is left alone until
every example that has begun waits. Then the lanes do what most of them asked for, each as a step of its own history. A
lane that asked for something else does this first, and asks again.

So no history misses what happened to its broker, choices do not depend on other lanes, and one kill is exercised by as
many examples as there are lanes. Pure: it knows lanes by their numbers, and the engine does what it says.
"""

from __future__ import annotations

from collections import Counter

from conformance.engine.lanes.protocol import Bounce
from model.operations import Kill


class Rendezvous:
    """What the lanes of one broker wait for."""

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
        """Whether the lanes have agreed, and the broker is not bounced yet."""
        return self._agreed is not None

    def enters(self, lane: int) -> None:
        """A lane works on the broker: it is not to be bounced until this lane :meth:`leaves`."""
        self._in_example.add(lane)

    def begins(self, lane: int) -> None:
        """A lane wants to begin an example."""
        self._waits_to_begin.add(lane)

    def wants(self, lane: int, bounce: Bounce) -> None:
        """The example of a lane is about to do this."""
        if not self._wants:
            self._has_begun_since.clear()
        self._wants[lane] = bounce

    def arrives(self, lane: int) -> bool:
        """A lane has nothing more to do before what was agreed on; whether it takes part in that."""
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

        None while the broker is about to be bounced. While others wait, each lane may begin one: more would keep them
        waiting, and fewer would miss what the others wait for.
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
        """What is to be done, and by which lanes, once all of them wait for that; what most of them asked for."""
        if not self.can_agree:
            return None
        counted = Counter(self._wants.values())
        self._agreed = max(counted, key=lambda bounce: (counted[bounce], isinstance(bounce, Kill)))
        self._expected = set(self._wants)
        self._wants.clear()
        return self._agreed, sorted(self._expected)

    def due(self) -> tuple[Bounce, list[int]] | None:
        """What the engine does to the broker now, as all lanes that take part are ready, and these; told once."""
        if self._agreed is None or self._arrived != self._expected:
            return None
        done, lanes = self._agreed, sorted(self._arrived)
        self._agreed = None
        self._expected, self._arrived = set(), set()
        return (done, lanes) if lanes else None
