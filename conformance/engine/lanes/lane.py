"""A lane: a process that runs rounds of machines for the engine, on namespaces and connections of its own.

Its choices depend only on the seed of each round. Before a kill or restart, it waits for the other lanes
(:mod:`conformance.engine.lanes.rendezvous`). What they requested first is performed before, as a step of its own
history.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from conformance.brokers.interface import Broker
from conformance.clients.driver.connect import use
from conformance.coverage.coverage import Coverage
from conformance.engine.example import crashed
from conformance.engine.lanes.broker import SharedBroker
from conformance.engine.lanes.protocol import (
    Ask,
    Begin,
    Begins,
    Bounce,
    Do,
    Go,
    HostAnswer,
    LaneReady,
    Order,
    Replayed,
    ReplayHistory,
    RoundEnded,
    RunRound,
    Stop,
    Wants,
    journal_name,
)
from conformance.engine.machines import Machine, with_factory
from conformance.engine.rounds import Rounds
from conformance.faults.seeded_defect import in_further_clusters
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.performer import Performer
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import LanePlace
from conformance.workers.line import Line
from conformance.workers.protocol import GaveUp
from model.operations import AnyOperation, Kill, Restart, Send

T = TypeVar("T", Go, Do, HostAnswer)


def open_world(begin: Begin, broker: Broker) -> World:
    """The world of a lane: namespaces of its own in the run's tenant, and further clusters of its own."""
    give = None if begin.defect is None else in_further_clusters(begin.defect)

    def on_start(started: Broker) -> None:
        if give is not None and started is not broker:  # the engine has seeded the broker that the lanes share
            give(started)

    place = LanePlace(broker, begin.footprint, lane=begin.lane)
    return World(broker, place=place, service=begin.service, further=begin.further, on_start=on_start)


class Lane:
    """One lane, on its end of the line."""

    def __init__(
        self,
        line: Line[Order],
        *,
        world: Callable[[Begin, Broker], World] = open_world,
        performer: Callable[[World], Performer] = RealPerformer,
    ) -> None:
        self._line = line
        self._open = world
        self._performer = performer
        self._is_stopped = False
        self.is_bouncing = False
        """Whether examples of the round kill or restart the broker."""
        self._deferred: list[AnyOperation] = []

    def run(self) -> None:
        """Follow the engine's orders until it closes the line."""
        begin = self._line.receive()
        if begin is None:
            return
        assert isinstance(begin, Begin)
        use(*begin.drivers)
        try:
            rounds = Rounds(
                self._open(begin, SharedBroker(begin, self._ask)),
                Path(begin.report) / journal_name(begin.lane),
                seed=begin.seed,
                known=begin.known,
                deadline=begin.deadline,
                performer=self._performer,
                bounce_s=begin.bounce_s,
                coverage=None if begin.coverage is None else Coverage.read(Path(begin.coverage)),
            )
        except HarnessError as harness_error:
            self._line.send(GaveUp(str(harness_error)))
            return
        self._line.send(LaneReady())
        while (order := self._line.receive()) is not None:
            if isinstance(order, RunRound):
                self._line.send(self._round(rounds, order))
            elif isinstance(order, ReplayHistory):
                self._line.send(_replay(rounds, order))
        rounds.world.close()

    def _round(self, rounds: Rounds, order: RunRound) -> RoundEnded:
        self._is_stopped = False
        self.is_bouncing = order.is_bouncing
        rounds.begin()
        try:
            rounds.run(
                machine_of(order),
                order.number,
                until=order.until,
                is_over=self._must_stop,
                on_end=self._line.send,
                may_begin=self._may_begin,
                with_others=self.with_others,
            )
        except Exception as crash:  # noqa: BLE001 - the lane can go on
            return RoundEnded(failure=str(crashed(order.machine.name, crash)))
        failure = None if rounds.failure is None else str(rounds.failure)
        return RoundEnded(failure=failure, is_short=rounds.is_short)

    def _must_stop(self) -> bool:
        """Whether the engine has stopped the round."""
        while not self._is_stopped and self._line.has_message:
            order = self._line.receive()
            assert order is None or isinstance(order, Stop)
            self._is_stopped = True
        return self._is_stopped

    def _may_begin(self) -> bool:
        self._deferred = []
        if not self.is_bouncing:
            return True
        self._line.send(Begins())
        return self._await(Go) is not None

    def with_others(self, operation: AnyOperation | None) -> Iterator[AnyOperation]:
        """The operations to perform for the next one: before a kill or restart, those of other lanes.

        A send without waiting is deferred until the next operation is known. If that is a kill, the message is in
        flight; without deferring, it would be stored before all lanes are ready for the kill.
        """
        if self.is_bouncing and isinstance(operation, Send) and not operation.wait:
            self._deferred.append(operation)
            return
        if self.is_bouncing and isinstance(operation, Kill | Restart):
            yield from self._of_others(operation)
        deferred, self._deferred = self._deferred, []
        yield from deferred
        if operation is not None:
            yield operation

    def _of_others(self, own: Bounce) -> Iterator[AnyOperation]:
        """The other lanes' kills and restarts, until all lanes agree on this one."""
        while True:
            self._line.send(Wants(own))
            agreed = self._await(Do)
            if agreed is None:
                raise OutOfTime
            if agreed.bounce == own:
                return
            yield agreed.bounce

    def _ask(self, what: Literal["agents", "is_alive", "bounce"]) -> HostAnswer:
        self._line.send(Ask(what))
        answer = self._await(HostAnswer)
        while answer is None:  # the round was stopped meanwhile; the answer is needed all the same
            answer = self._await(HostAnswer)
        return answer

    def _await(self, kind: type[T]) -> T | None:
        """The engine's answer of this kind; None if it stops the round instead."""
        order = self._line.receive()
        if order is None:
            raise SystemExit  # the engine has ended
        if isinstance(order, Stop):
            self._is_stopped = True
            return None
        assert isinstance(order, kind), f"{order} is no {kind.__name__}"
        return order


def _replay(rounds: Rounds, order: ReplayHistory) -> Replayed | RoundEnded:
    try:
        return Replayed(*rounds.replay(order.operations, order.machine))
    except Exception as crash:  # noqa: BLE001 - the lane can go on
        return RoundEnded(failure=str(crashed("a replay", crash)))


def machine_of(order: RunRound) -> Machine:
    """The machine of a round."""
    return replace(with_factory(order.machine, pkgutil.resolve_name(order.factory)), on_shipped=order.on_shipped)


def factory_of(machine: Machine) -> str | None:
    """The class of a machine as ``module:name``; None if another process cannot import it."""
    made_by = machine.factory
    name = f"{getattr(made_by, '__module__', '')}:{getattr(made_by, '__qualname__', '')}"
    try:
        return name if pkgutil.resolve_name(name) is made_by else None
    except (ValueError, ImportError, AttributeError):
        return None
