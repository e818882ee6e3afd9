"""SERVE-09: the access modes of producers, who is admitted, fenced and activated.

Any number of Shared producers may be open on a topic. A producer with exclusive access is alone on it: Exclusive is
refused beside any other producer, ExclusiveWithFencing fences all others, and WaitForExclusive is queued until none is
left. Those that wait get access in their order. While producers wait, nobody else is admitted. A producer that was
fenced is not told so, but stores nothing more.

Each time that exclusive access is given, the topic's epoch rises. A producer that reconnects with an epoch is refused
if another one has had access since, which survives a reload of the topic.

Producers of pulsar-client reconnect by themselves, so beside them nothing is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from model.events import Answer, AnyOutcome, Duplicate, Opened, Refused, Stored
from model.immutable.map import Map
from model.judgement import Allowed, Broken, overdue
from model.operations import OpenProducer
from model.producer_operations import ProducersRead, Queued
from model.rules.catalogue import carries
from model.vocabulary import Entry

BUSY: Final = "ProducerBusy"
FENCED: Final = "ProducerFenced"
RULE: Final = "SERVE-09"
EXERCISED: Final = Allowed(None, (RULE,))
EXCUSED: Final = Allowed(None, excused=(RULE,))


@dataclass(frozen=True, slots=True)
class Holder:
    """A producer that is open on a topic: its session and access mode; whether it cannot reconnect by itself."""

    session: str
    is_exclusive: bool
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Contention:
    """A topic of which a producer asked for exclusive access.

    ``waiting``: the producers that are queued, in order. ``ended``: those that must be closed, since they were fenced
    or their topic was reloaded while they waited. ``fenced``: the sessions that were fenced while they were open.
    ``is_known``: who has access and who waits is known. ``epoch``: the last one, or a lower bound if one that waited
    left, which may have been activated (``is_epoch_certain``). ``epochs``: the last one of each session.
    """

    waiting: tuple[OpenProducer, ...] = ()
    ended: frozenset[str] = frozenset()
    fenced: frozenset[str] = frozenset()
    is_known: bool = True
    epoch: int = -1
    is_epoch_certain: bool = True
    epochs: Map[str, int] = Map()

    def without(self, session: str) -> Contention:
        """The same after a session left."""
        waiting = tuple(one for one in self.waiting if one.session != session)
        is_certain = self.is_epoch_certain and waiting == self.waiting
        ended, fenced = self.ended - {session}, self.fenced - {session}
        return replace(self, waiting=waiting, ended=ended, fenced=fenced, is_epoch_certain=is_certain)

    def with_access(self, session: str, epoch: int | None) -> Contention:
        """The same after a session was given exclusive access."""
        after = replace(self, waiting=tuple(one for one in self.waiting if one.session != session))
        if epoch is None:
            return after
        return replace(after, epoch=epoch, is_epoch_certain=True, epochs=self.epochs.set(session, epoch))

    def fencing(self, others: Iterable[Holder]) -> Contention:
        """The same after a producer fenced all others."""
        return replace(self._without_queue(), fenced=self.fenced | {one.session for one in others})

    def reloaded(self) -> Contention:
        """The same after the topic was reloaded, which the epoch survives."""
        after = self._without_queue()
        return replace(after, fenced=frozenset(), ended=after.ended if self.is_known else frozenset(), is_known=True)

    def forgotten(self) -> Contention:
        """The same if it is not known any more who has access, until the topic is reloaded."""
        return replace(self, waiting=(), ended=frozenset(), is_known=False, is_epoch_certain=False)

    def _without_queue(self) -> Contention:
        return replace(self, waiting=(), ended=self.ended | {one.session for one in self.waiting})

    def is_stale(self, operation: OpenProducer) -> bool:
        """Whether a producer reconnects with the epoch of an earlier access than the last one."""
        is_exclusive = operation.access != "Shared"
        return is_exclusive and operation.has_epoch and self.epochs.get(operation.session, self.epoch) < self.epoch


NOBODY: Final = Contention()


def in_the_way(contention: Contention, holders: tuple[Holder, ...], operation: OpenProducer) -> tuple[str, ...]:
    """The sessions because of which a producer with this access mode is not admitted now."""
    match operation.access:
        case "Shared":
            return tuple(_sessions(contention, [one for one in holders if one.is_exclusive]))
        case "Exclusive" | "WaitForExclusive":
            return tuple(_sessions(contention, holders))
        case "ExclusiveWithFencing":
            return ()


def _sessions(contention: Contention, holders: tuple[Holder, ...] | list[Holder]) -> Iterator[str]:
    yield from (one.session for one in holders)
    yield from (one.session for one in contention.waiting)


@carries(RULE)
def opened(
    contention: Contention, holders: tuple[Holder, ...], operation: OpenProducer, outcome: AnyOutcome
) -> Allowed[None] | Broken:
    """A producer asked for access. ``holders`` and the contention: without its own session."""
    if not contention.is_known:
        return EXCUSED
    who = in_the_way(contention, holders, operation)
    what = f"producer {operation.producer} of {operation.session} ({operation.access})"
    match outcome:
        case Refused(code=code) if code in (BUSY, FENCED):
            is_queued = who and operation.access == "WaitForExclusive"
            if contention.is_stale(operation) or (who and not is_queued):
                return EXERCISED
            if operation.has_epoch and not contention.is_epoch_certain:
                return EXCUSED
            because = f"{what} is refused without a reason: {code}, {outcome.message}"
            return overdue(Broken(RULE, because, evidence=outcome).passing_to(None))
        case Queued():
            if operation.access != "WaitForExclusive":
                return Broken(RULE, f"{what} is queued")
            return EXERCISED
        case Opened(epoch=epoch):
            if who:
                is_certain = all(one.is_certain for one in holders)
                because = f"{what} is admitted beside {who[0]}"
                return Broken(RULE, because, evidence=operation).passing_to(None) if is_certain else EXCUSED
            if contention.is_stale(operation):
                because = f"{what} reconnects with an epoch, although another producer has had access since"
                return Broken(RULE, because, evidence=operation).passing_to(None)
            if operation.access != "Shared" and epoch is not None and not _rises(contention, operation, epoch):
                because = f"{what} is given access with epoch {epoch}, and the last one was {contention.epoch}"
                return Broken(RULE, because, evidence=operation).passing_to(None)
            return EXERCISED
        case _:
            return Allowed(None)


def _rises(contention: Contention, operation: OpenProducer, epoch: int) -> bool:
    is_again = operation.has_epoch and operation.session in contention.epochs
    return epoch > contention.epoch or (is_again and epoch == contention.epoch)


@carries(RULE)
def read(contention: Contention, holders: tuple[Holder, ...], outcome: ProducersRead) -> Allowed[None] | Broken:
    """After a wait: who has access, and who still waits."""
    if not contention.is_known:
        return EXCUSED
    if left := [one for one in outcome.waiting if one in contention.ended]:
        because = f"{left[0]} still waits for exclusive access, although it was fenced, or its topic was reloaded"
        return overdue(Broken(RULE, because, evidence=outcome).passing_to(None))
    queue = [one.session for one in contention.waiting]
    given = [one.session for one in outcome.activated]
    there = [one for one in holders if one.session in outcome.open and one.session not in given]
    if given and there:
        because = f"{given[0]} is given exclusive access beside {there[0].session}"
        return Broken(RULE, because, evidence=outcome).passing_to(None) if there[0].is_certain else EXCUSED
    if len(given) > 1:
        return Broken(RULE, f"{given[0]} and {given[1]} are given exclusive access")
    if given and queue and given[0] != queue[0]:
        because = f"{given[0]} is given exclusive access before {queue[0]}, which has waited longer"
        return Broken(RULE, because, evidence=outcome).passing_to(None)
    if gone := [one for one in queue if one not in outcome.waiting and one not in given]:
        because = f"{gone[0]}, which waits for exclusive access and did nothing wrong, is ended by the broker"
        return Broken(RULE, because, evidence=outcome).passing_to(None)
    if queue and not there and not given:
        because = f"{queue[0]} is not given exclusive access, although no other producer is open"
        return overdue(Broken(RULE, because, evidence=outcome).passing_to(None))
    return EXERCISED if queue or contention.ended else Allowed(None)


@carries(RULE)
def sent_by_fenced(session: str, entries: Sequence[Entry], answers: Sequence[Answer]) -> Allowed[None] | Broken:
    """What a producer sends after it was fenced is not stored."""
    for entry, answer in zip(entries, answers, strict=False):
        if isinstance(answer, Stored | Duplicate):
            return Broken(RULE, f"{entry} of {session}, which was fenced before, is confirmed: {answer}")
    return EXERCISED


def after_read(contention: Contention, outcome: ProducersRead) -> Contention:
    """The producers of a topic as they were read."""
    for one in outcome.activated:
        contention = contention.with_access(one.session, one.epoch)
    waiting = tuple(one for one in contention.waiting if one.session in outcome.waiting)
    return replace(contention, waiting=waiting, ended=contention.ended.intersection(outcome.waiting))
