"""The engine's side of lanes: starts them, assigns rounds, answers requests, and replaces crashed lanes.

It judges nothing. Its caller decides which round is next, and when it is over.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, assert_never

import msgspec

from conformance.brokers.interface import AgentAddress
from conformance.engine.lanes.protocol import (
    Ask,
    Begin,
    Begins,
    Bounce,
    Do,
    Go,
    HostAnswer,
    LaneReady,
    Replayed,
    ReplayHistory,
    Report,
    RoundEnded,
    RunRound,
    Stop,
    Wants,
)
from conformance.engine.lanes.rendezvous import Rendezvous
from conformance.engine.lanes.starters import LaneStarters
from conformance.engine.rounds import ExampleEnded
from conformance.harness_error import HarnessError, NotReady
from conformance.wait import Deadline
from conformance.workers.protocol import GaveUp, WorkerCrashed
from conformance.workers.starter import Worker

STOP_TIMEOUT_S: Final = 90.0
"""How long lanes may take to stop: an operation may be waiting for a broker."""
LOOK_EVERY_S: Final = 0.1
"""How often it asks the caller whether it is over."""


class Host(Protocol):
    """The owner of the broker that the lanes share."""

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load the agent with all failpoints into each of its processes."""

    def is_alive(self) -> bool:
        """Whether the broker's process answers."""

    def ended_with(self) -> int | None:
        """The exit status of its process, if that ended by itself."""

    def bounce(self, bounce: Bounce) -> None:
        """Kill or restart it, and wait until it serves."""


Task = RunRound | ReplayHistory
Taken = ExampleEnded | RoundEnded | Replayed


@dataclass(slots=True)
class LaneProcess:
    """A lane as the engine sees it.

    ``task``: its current one. ``reported``: the number of the last example that it reported.
    """

    number: int
    worker: Worker[Report]
    is_ready: bool = False
    task: Task | None = None
    reported: int = 0


class Lanes:
    """A context manager of lanes."""

    def __init__(
        self,
        count: int,
        begin: Begin,
        host: Host,
        *,
        starters: LaneStarters,
        numbers: Iterator[int],
    ) -> None:
        """``begin``: the first message to each lane; its number comes from ``numbers``."""
        self.count = count
        """How many there are at most; fewer if some cannot be started."""
        self._begin = begin
        self._host = host
        self._starters = starters
        self._starter = starters.take()
        self._numbers = numbers
        self._lanes: dict[int, LaneProcess] = {}
        self._rendezvous = Rendezvous()
        self._why_none = "no lane has started"
        self._longest_bounce_s = begin.bounce_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._starters.prepare()
        self._starter.close()

    def run(
        self,
        next_task: Callable[[], Task | None],
        is_over: Callable[[float], bool],
        take: Callable[[Task, Taken], None],
        patience_s: Callable[[], float],
    ) -> list[LaneProcess]:
        """Run rounds or replays in parallel until it is over or none is left.

        ``is_over``: whether it will be over in so many seconds. No bounce begins that would end after that. ``take`` is
        called with each example, round and replay that ends. ``patience_s``: how long lanes may take to stop. Returns
        those that do not. Raises HarnessError if no lane can be started.
        """
        stops_until: Deadline | None = None
        while True:
            if stops_until is None and is_over(self._longest_bounce_s if self._rendezvous.can_agree else 0.0):
                stops_until = Deadline.after(patience_s())
                for lane in self._at_work():
                    lane.worker.send(Stop())
            elif stops_until is None:
                self._agree()
                self._start_missing()
                self._hand_out(next_task)
            if not self._at_work():
                break
            if stops_until is not None and stops_until.passed:
                return self._at_work()
            for lane in self._heard():
                self._listen(lane, take)
            self._bounce()
            if stops_until is None:
                self._let_begin()
        if not self._lanes:
            raise HarnessError(self._why_none)
        return []

    def _start_missing(self) -> None:
        while len(self._lanes) < self.count and not self._rendezvous.is_imminent:
            number = next(self._numbers)
            begin = msgspec.structs.replace(self._begin, lane=number)
            self._lanes[number] = LaneProcess(number, self._starter.run(begin))
            self._rendezvous.enters(number)

    def _at_work(self) -> list[LaneProcess]:
        return [lane for lane in self._lanes.values() if lane.task is not None or not lane.is_ready]

    def _hand_out(self, next_task: Callable[[], Task | None]) -> None:
        for lane in self._lanes.values():
            if lane.is_ready and lane.task is None:
                lane.task = next_task()
                if lane.task is not None:
                    lane.worker.send(lane.task)

    def _heard(self) -> list[LaneProcess]:
        """The lanes with a report, after waiting a moment for one."""
        with selectors.DefaultSelector() as selector:
            for lane in self._lanes.values():
                selector.register(lane.worker, selectors.EVENT_READ, lane)
            return [key.data for key, _ in selector.select(LOOK_EVERY_S)]

    def _listen(self, lane: LaneProcess, take: Callable[[Task, Taken], None]) -> None:
        while lane.number in self._lanes and lane.worker.has_reported:
            try:
                report = lane.worker.receive(None)
            except HarnessError as harness_error:
                self._died(lane, str(harness_error), take)
                return
            match report:
                case None:
                    self._died(lane, f"lane {lane.number} of the suite ended by itself", take)
                case GaveUp(why):
                    self._died(lane, why, take)
                case LaneReady():
                    lane.is_ready = True
                    self._rendezvous.leaves(lane.number)
                case Begins():
                    self._rendezvous.begins(lane.number)
                case Wants(bounce):
                    self._rendezvous.wants(lane.number, bounce)
                case Ask():
                    self._answer(lane, report)
                case ExampleEnded() | RoundEnded() | Replayed():
                    assert lane.task is not None
                    if isinstance(report, ExampleEnded):
                        lane.reported = report.number
                    ended, lane.task = lane.task, lane.task if isinstance(report, ExampleEnded) else None
                    self._rendezvous.leaves(lane.number)
                    take(ended, report)
                case WorkerCrashed():
                    raise AssertionError("a worker raises it")
                case _:
                    assert_never(report)

    def _died(self, lane: LaneProcess, why: str, take: Callable[[Task, Taken], None]) -> None:
        """Replace a lane that has ended, unless it never was ready."""
        self._why_none = why
        self._rendezvous.leaves(lane.number)
        del self._lanes[lane.number]
        if not lane.is_ready:
            self.count -= 1
        if lane.task is not None:
            take(lane.task, RoundEnded(failure=why))

    def _answer(self, lane: LaneProcess, ask: Ask) -> None:
        if ask.what == "bounce":
            if not self._rendezvous.arrives(lane.number):
                lane.worker.send(HostAnswer(failure="a lane may not do this to the broker without the others"))
            return
        try:
            if ask.what == "agents":
                lane.worker.send(HostAnswer(agents=self._host.load_agents()))
            else:
                alive, ended_with = self._host.is_alive(), self._host.ended_with()
                lane.worker.send(HostAnswer(is_alive=alive, ended_with=ended_with))
        except HarnessError as harness_error:
            lane.worker.send(HostAnswer(failure=str(harness_error)))

    def _bounce(self) -> None:
        """Kill or restart the broker once all participating lanes are ready."""
        due = self._rendezvous.due()
        if due is None:
            return
        bounce, numbers = due
        answer, began = HostAnswer(), time.monotonic()
        try:
            self._host.bounce(bounce)
        except HarnessError as harness_error:
            answer = HostAnswer(failure=str(harness_error), is_not_ready=isinstance(harness_error, NotReady))
        self._longest_bounce_s = max(self._longest_bounce_s, time.monotonic() - began)
        for number in numbers:
            self._lanes[number].worker.send(answer)

    def _let_begin(self) -> None:
        """Let waiting lanes begin their examples, unless a bounce is imminent."""
        for number in self._rendezvous.may_begin():
            self._lanes[number].worker.send(Go())

    def _agree(self) -> None:
        """Once all lanes wait for a bounce, send them the one to perform."""
        agreed = self._rendezvous.agree()
        if agreed is not None:
            bounce, numbers = agreed
            for number in numbers:
                self._lanes[number].worker.send(Do(bounce))
