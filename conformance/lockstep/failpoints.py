"""The failpoints of one example: set by the words of a history, cleared together, with how often each one fired."""

from __future__ import annotations

import time
from typing import assert_never

from conformance.brokers.interface import AgentAddress
from conformance.faults.failpoints import (
    Armed,
    ConfirmationLost,
    DispatchSlow,
    Fault,
    JoinSlow,
    LeaveSlow,
    LedgerCloseSlow,
    ReadSlow,
    ReplaySlow,
    SnapshotSlow,
    SnapshotWriteFails,
    WriteFails,
    WriteFailsLate,
    WriteSlow,
    arm,
)
from model.operations import FailpointKind


class Failpoints:
    """What is armed in a broker now."""

    def __init__(self, address: AgentAddress) -> None:
        self._address = address
        self._armed: list[tuple[str, FailpointKind, Armed]] = []

    @property
    def are_armed(self) -> bool:
        """Whether some are."""
        return bool(self._armed)

    def set(self, topic: str, kind: FailpointKind, *, count: int, delay_ms: int, spared: int) -> None:
        """Arm a failpoint on a topic, by its full name."""
        fault = fault_of(topic, kind, count=count, delay_ms=delay_ms, spared=spared)
        self._armed.append((topic, kind, arm(self._address, fault)))

    def clear(self) -> list[tuple[str, FailpointKind, int]]:
        """Disarm everything; for each, the topic, the kind, and how often it fired.

        A read that is being made slow runs to its end, and that is waited for: what is done next does not race it.
        """
        fired = [(topic, kind, armed.disarm()) for topic, kind, armed in self._armed]
        slow_ms = (
            armed.fault.delay_ms
            for (_, _, armed), (_, _, times) in zip(self._armed, fired, strict=True)
            if times and isinstance(armed.fault, ReadSlow)
        )
        time.sleep(max(slow_ms, default=0) / 1000)
        self._armed.clear()
        return fired

    def forget(self) -> None:
        """The broker's process is another one: nothing is armed in it."""
        self._armed.clear()


def fault_of(topic: str, kind: FailpointKind, *, count: int, delay_ms: int, spared: int) -> Fault:
    """The fault that these words of a history mean."""
    match kind:
        case "write-fails":
            return WriteFails(topic=topic, count=count, spared=spared)
        case "write-fails-late":
            return WriteFailsLate(topic=topic, count=count, spared=spared, delay_ms=delay_ms)
        case "write-slow":
            return WriteSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "snapshot-write-fails":
            return SnapshotWriteFails(topic=topic, count=count)
        case "snapshot-slow":
            return SnapshotSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "confirmation-lost":
            return ConfirmationLost(topic=topic, count=count)
        case "ledger-close-slow":
            return LedgerCloseSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "replay-slow":
            return ReplaySlow(topic=topic, count=count, delay_ms=delay_ms)
        case "read-slow":
            return ReadSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "dispatch-slow":
            return DispatchSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "join-slow":
            return JoinSlow(topic=topic, count=count, delay_ms=delay_ms)
        case "leave-slow":
            return LeaveSlow(topic=topic, count=count, delay_ms=delay_ms)
        case _:
            assert_never(kind)
