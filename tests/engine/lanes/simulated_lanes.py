"""The process that lanes are forked from, for tests without a broker: each example has a simulated one.

What is done to the broker is done to a counter in the folder of the report. A performer that finds it bounced more
often than its own history says raises an error: another lane's kill would have hit its topics.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import rule

from conformance.brokers.interface import Broker
from conformance.engine.example import RunningExample
from conformance.engine.lanes.lane import Lane
from conformance.engine.lanes.protocol import Begin, read_order
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import DidNotReturn, expected_back
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from conformance.workers.zygote import serve
from model.events import Abandoned, LogRead
from model.operations import AnyOperation, CreateTopic, Kill, OpenProducer, ReadLog, Restart, Send
from model.service.unexpected import Overdue
from model.vocabulary import Entry, Message
from stateful.lockstep_machine import LockstepMachine
from tests.lockstep.simulated.world import SimulatedPerformer

LOSSY = "lossy"
"""The topic whose log loses its entries."""
STUCK = "stuck"
"""The same, and its log can be read only once."""
UNABLE = "unable"
"""The topic that the suite has a harness error with."""
ENDLESS = "endless"
"""The topic whose operations never end."""


def bounces(report: Path) -> int:
    """How often the broker was bounced."""
    counter = report / "bounces"
    return counter.stat().st_size if counter.exists() else 0


def bounce(report: Path) -> None:
    """Bounce it."""
    with (report / "bounces").open("ab") as counter:
        counter.write(b".")


class NothingMissing:
    """The capabilities of a broker that lacks none."""

    def undecidable(self) -> dict[str, str]:
        return {}

    def why_not(self, _: AnyOperation) -> str | None:
        return None

    def libraries_for(self, _: AnyOperation) -> tuple[str, ...]:
        return ()


def open_world(begin: Begin, broker: Broker) -> World:
    world = SimpleNamespace(broker=broker, report=Path(begin.report), capabilities=NothingMissing(), close=lambda: None)
    return cast(World, world)


class SharingPerformer(SimulatedPerformer):
    """Simulates a broker, and has that of the lanes bounced as well."""

    def __init__(self, world: World) -> None:
        super().__init__(random.Random(1))
        self._world = world
        self._report: Path = world.report  # type: ignore[attr-defined]
        self._seen = bounces(self._report)
        self._has_read = False
        self._last_s = time.monotonic()

    def perform(self, operation: AnyOperation) -> Performed:
        now_s = time.monotonic()
        self.clock.advance(
            now_s - self._last_s
        )  # at least as much as the lockstep's, by which delayed messages are due
        self._last_s = now_s
        if isinstance(operation, Kill | Restart):
            self._seen += 1
            try:
                with expected_back():
                    self._world.broker.kill() if isinstance(operation, Kill) else self._world.broker.restart()
            except DidNotReturn as late:
                return Performed(Abandoned(str(late)), unexpected=(Overdue("SERVE-02", str(late)),))
        if operation.topic == UNABLE:
            raise HarnessError("the disk is full")
        if operation.topic == ENDLESS:
            threading.Event().wait()
        if operation.topic == STUCK and isinstance(operation, ReadLog):
            if self._has_read:
                threading.Event().wait()
            self._has_read = True
        done = super().perform(operation)
        if bounces(self._report) != self._seen:
            raise HarnessError(f"the broker was bounced {bounces(self._report) - self._seen} times unseen")
        if isinstance(operation, ReadLog) and operation.topic in (LOSSY, STUCK):
            return Performed(LogRead(()), done.late)
        return done


class Sending(LockstepMachine):
    """Sends a message on one topic."""

    topic = "t0"

    @rule()
    def send(self) -> None:
        self.do(CreateTopic(self.topic))
        self.do(OpenProducer("s1", self.topic, "p0"))
        self.do(Send("s1", (Entry((Message(1, "b1"),)),)))


class Losing(Sending):
    """Sends a message that is lost."""

    topic = LOSSY


class LosingAndKilling(Losing):
    """Kills the broker first."""

    @rule()
    def send(self) -> None:
        self.do(Kill())
        super().send()


class LosingAndStalling(Sending):
    """Sends a message that is lost, and never ends to read what is left."""

    topic = STUCK


class Failing(Sending):
    """Does what the suite is not able to do."""

    topic = UNABLE


class Dying(LockstepMachine):
    """Ends its process."""

    @rule()
    def end(self) -> None:
        os._exit(1)


class Bouncing(LockstepMachine):
    """Kills and restarts the broker between sends."""

    @rule(kills=st.booleans(), often=st.integers(0, 3))
    def bounce(self, kills: bool, often: int) -> None:
        self.do(CreateTopic("t0"))
        for number in range(often):
            self.do(OpenProducer("s1", "t0", "p0"))
            self.do(Send("s1", (Entry((Message(number + 1, "b1"),)),)))
            self.do(Kill() if kills else Restart())


class Stalling(LockstepMachine):
    """Does not stop."""

    @rule()
    def stall(self) -> None:
        self.do(CreateTopic("t0"))
        if cast(RunningExample, self.example).lockstep.steps:
            threading.Event().wait()


class Endless(LockstepMachine):
    """Creates topics until it is stopped."""

    @rule()
    def create(self) -> None:
        self.do(CreateTopic("t0"))


if __name__ == "__main__":
    serve(int(sys.argv[1]), lambda line: Lane(line, world=open_world, performer=SharingPerformer).run(), read_order)
