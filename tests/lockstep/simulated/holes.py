"""Holes between acknowledgments on the simulated broker: of each message beside a topic, whether it is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from math import ceil

from model.events import AnyOutcome
from model.hole_operations import HoleOperation, HolesMade, HolesReceived, MakeHoles, ReceiveHoles, progressions
from tests.lockstep.simulated.variants import SimulatedVariant

LEDGER_ROOM = 50
MANY_RANGES = 8
"""With more ranges than this, variants lose or join some of them."""


class SimulatedHoles:
    """The topics beside those of one example."""

    def __init__(self, variant: SimulatedVariant) -> None:
        self._variant = variant
        self._acked: dict[str, list[bool]] = {}
        self._persisted: dict[str, list[bool]] = {}

    def perform(self, operation: HoleOperation) -> AnyOutcome:
        """Perform one operation, and return its outcome."""
        acked = self._acked.setdefault(operation.topic, [])
        match operation:
            case MakeHoles(topic, count, stride, first, awaits):
                acked += [False] * count
                for number in range(first, len(acked), stride):
                    acked[number] = True
                if awaits:
                    self._persist(topic)
                return HolesMade(_ledgers(acked), is_persisted=awaits)
            case ReceiveHoles():
                acked.append(False)
                left = [number for number, is_acked in enumerate(acked) if not is_acked]
                return HolesReceived(_ledgers(acked), progressions(left))

    def reload(self, topics: Iterable[str], *, is_killed: bool) -> None:
        """Load topics again as they were persisted; an unload persists them before."""
        for topic in self._acked.keys() & set(topics):
            if not is_killed:
                self._persist(topic)
            persisted, acked = self._persisted.get(topic, []), self._acked[topic]
            self._acked[topic] = persisted + [False] * (len(acked) - len(persisted))

    def _persist(self, topic: str) -> None:
        stored = list(self._acked[topic])
        runs = [list(run) for is_acked, run in groupby(range(len(stored)), key=stored.__getitem__) if is_acked]
        if self._variant.many_ranges_lose_last and len(runs) > MANY_RANGES:
            for number in runs[-1]:
                stored[number] = False
        if self._variant.many_ranges_are_joined and len(runs) > MANY_RANGES:
            for number in range(runs[-2][-1], runs[-1][0]):
                stored[number] = True
        self._persisted[topic] = stored


def _ledgers(messages: list[bool]) -> tuple[int, ...]:
    full = ceil(len(messages) / LEDGER_ROOM) - 1
    return (*[LEDGER_ROOM] * full, len(messages) - full * LEDGER_ROOM) if messages else ()
