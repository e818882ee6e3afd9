"""The access modes of producers on the simulated broker: who is admitted, queued, fenced and activated."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.events import Refused
from model.operations import OpenProducer
from model.service.access import BUSY, FENCED
from model.vocabulary import AccessMode


@dataclass(slots=True)
class Contention:
    """One topic: the open producers with their modes, those that wait in order, and the epoch."""

    open: dict[str, AccessMode] = field(default_factory=dict)
    waiting: dict[str, OpenProducer] = field(default_factory=dict)
    epoch: int = -1


@dataclass(slots=True)
class SimulatedAccess:
    """The topics of an example, by name. A broker that never ``activates`` leaves a queue alone."""

    activates: bool = True
    topics: dict[str, Contention] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    """The last epoch of each session."""

    def of(self, topic: str) -> Contention:
        return self.topics.setdefault(topic, Contention())

    def ask(self, operation: OpenProducer) -> Refused | bool:
        """Whether a producer is admitted; False if it waits."""
        there = self.of(operation.topic)
        self.left(operation.session, operation.topic)
        is_exclusive = bool(there.waiting) or any(mode != "Shared" for mode in there.open.values())
        own = self.epochs.get(operation.session) if operation.has_epoch else None
        match operation.access:
            case "Shared" if is_exclusive:
                return Refused(BUSY, "there is an exclusive producer")
            case "Exclusive" if is_exclusive or there.open:
                return Refused(FENCED, "there are other producers")
            case "WaitForExclusive" if is_exclusive or there.open:
                there.waiting[operation.session] = operation
                return False
            case "Shared":
                return True
            case _ if own is not None and own < there.epoch:
                return Refused(FENCED, "the topic's epoch has moved on")
            case _:
                return True

    def fenced_by(self, operation: OpenProducer) -> tuple[str, ...]:
        """The open sessions that a producer which is admitted fences."""
        there = self.of(operation.topic)
        if operation.access != "ExclusiveWithFencing":
            return ()
        fenced = tuple(there.open)
        there.open.clear()
        there.waiting.clear()
        return fenced

    def opened(self, operation: OpenProducer) -> int | None:
        """A producer is open; the topic's epoch, if its access is exclusive."""
        there = self.of(operation.topic)
        there.waiting.pop(operation.session, None)
        there.open[operation.session] = operation.access
        if operation.access == "Shared":
            return None
        if not (operation.has_epoch and self.epochs.get(operation.session) == there.epoch):
            there.epoch += 1
        self.epochs[operation.session] = there.epoch
        return there.epoch

    def left(self, session: str, topic: str | None = None) -> bool:
        """A session is not open any more, nor waiting; whether it waited."""
        waited = False
        for there in self.topics.values() if topic is None else [self.of(topic)]:
            there.open.pop(session, None)
            waited = there.waiting.pop(session, None) is not None or waited
        return waited

    def reloaded(self, topic: str) -> None:
        """A topic was reloaded: the broker closed the producers that waited."""
        self.of(topic).waiting.clear()

    def next_of(self, topic: str) -> OpenProducer | None:
        """The producer that gets access now, if nobody has it."""
        there = self.of(topic)
        return next(iter(there.waiting.values()), None) if self.activates and not there.open else None
