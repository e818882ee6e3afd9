"""One example in lockstep: perform an operation, record it, then judge it.

A step is on disk before it is judged, so a history survives a crash of this process. Machines choose the operations,
except for the last ones (:func:`finishing`), which settle unknown outcomes and read everything back.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import get_args

from msgspec.structs import replace

from conformance.harness_error import HarnessError
from conformance.history.document import Step, Violation
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.performer import Performed, Performer
from conformance.wait import Deadline
from model.applications import tracker
from model.chunking.tracker import finishing as finishing_chunks
from model.cluster_operations import AWAY, HOME
from model.deduplication import topic_observer
from model.events import Abandoned, AnyOutcome, Opened, Sent, Stored
from model.example import Example
from model.explain import judge_step
from model.judgement import Broken, overdue
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashProducer,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    RestoreBookies,
    Send,
)
from model.policy_operations import PolicyLevel, SetPolicy
from model.replication.example_end import winding_up_clusters
from model.subscription_operations import CreateSubscription, ReadCursor, ReceiveAll, Subscribe
from model.vocabulary import Entry, Message

MAX_STATES = 10_000
"""How many states may be possible at once. The most observed were a few dozen."""
BARRIER = "barrier"
"""The producer whose confirmed message shows that all earlier writes have ended."""
LAST = "last"
"""The subscription that reads the whole log where the model no longer tracks the others."""
BARRIERS = 20
"""How many of its messages may fail: more than any failpoint fails."""
BARRIER_TIMEOUT_S, BARRIER_PAUSE_S = 10.0, 0.25
"""How long they may fail, because a broker notices only after a while that a bookie is back, and how long to wait each
time."""


class RuleBroken(Exception):
    """The model allows no state for what was observed."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.rule}: {violation.because}")
        self.violation = violation


class CutShort(Exception):
    """The example ends: an operation was given up for a reason that the model allows, and its effect is unknown."""


@dataclass(slots=True)
class Lockstep:
    """One example on one performer; ``record`` is called with each step before it is judged.

    ``chosen``: how many of the steps a machine chose; the later ones finish the example. ``clock``: returns seconds,
    real or simulated.
    """

    performer: Performer
    state: Example
    record: Callable[[Step], None] = lambda _: None
    steps: list[Step] = field(default_factory=list)
    exercised: Counter[str] = field(default_factory=Counter)
    deviations: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    largest_state: int = 0
    chosen: int = 0
    clock: Callable[[], float] = time.perf_counter
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def do(self, operation: AnyOperation) -> AnyOutcome:
        """Perform, record and judge one operation. Raises :class:`RuleBroken`."""
        self.chosen += 1
        return self._do(operation)

    def read_back(self) -> None:
        """Record all logs without judging them, after a broken rule ended the example."""
        for topic in self.state.topics:
            self._performed(ReadLog(topic))

    def _performed(self, operation: AnyOperation) -> Step:
        invoked = self.clock()
        outcome, late, unexpected = self._attempted(operation)
        step = Step(
            operation=operation,
            outcome=outcome,
            late=late,
            unexpected=unexpected,
            invoked_ms=round((invoked - self._began) * 1000, 3),
            completed_ms=round((self.clock() - self._began) * 1000, 3),
        )
        self.record(step)
        return step

    def _attempted(self, operation: AnyOperation) -> Performed:
        try:
            return self.performer.perform(operation)
        except OutOfTime:
            return Performed(Abandoned("the run ended"))

    def _do(self, operation: AnyOperation) -> AnyOutcome:
        return self.take(self._performed(operation))

    def take(self, step: Step) -> AnyOutcome:
        """Judge a step that was performed. Raises :class:`RuleBroken`."""
        self.steps.append(step)
        judged = judge_step(self.state, step)
        if isinstance(judged, Broken):
            raise RuleBroken(self.violation(judged))
        self.state = judged.state
        self.exercised.update(judged.exercised)
        self.deviations.update(judged.deviations)
        self.excused.update(judged.excused)
        self.largest_state = max(self.largest_state, self.state.size)
        if self.largest_state > MAX_STATES:
            raise HarnessError(f"the model has more than {MAX_STATES} possible states")
        if isinstance(step.outcome, Abandoned):
            raise CutShort(step.outcome.why)
        return step.outcome

    def finish(self) -> None:
        """Settle unknown outcomes, then read logs, snapshots and subscriptions back and judge them."""
        for operation in finishing(self):
            self._do(self._by_same_client(operation))

    def _by_same_client(self, operation: AnyOperation) -> AnyOperation:
        """The operation by the client that subscribed to the subscription last, if that is recorded."""
        if not isinstance(operation, Subscribe) or operation.client == "wire":
            return operation
        where = operation.topic, operation.subscription
        before = (step.operation for step in reversed(self.steps) if isinstance(step.operation, Subscribe))
        last = next((one for one in before if (one.topic, one.subscription) == where), operation)
        return replace(operation, library=last.library)

    def violation(self, broken: Broken) -> Violation:
        """The violation at the last step."""
        return Violation(
            rule=broken.rule,
            because=broken.because,
            deviation=broken.deviation,
            step=len(self.steps),
            side=broken.side,
            is_overdue=broken.is_overdue,
        )


def finishing(lockstep: Lockstep) -> Iterator[AnyOperation]:
    """The operations that end an example, each chosen after the one before it is done.

    Producers with unknown outcomes are opened again, which succeeds only after the broker has closed the former
    connection. Then one more confirmed message shows that all earlier writes have ended, since the log has one order.
    The log that is read back after it is final.
    """
    if lockstep.state.service.is_short_of_bookies:  # an example may be cut short before it restores them
        yield RestoreBookies()
    if lockstep.state.is_disturbed:
        yield ClearNetworkFaults()
    if lockstep.state.failpoints:
        yield ClearFailpoints()
    for (topic, kind), policy in lockstep.state.service.policies.items():
        for level in get_args(PolicyLevel):
            if policy.of(level) is not None:
                yield SetPolicy(topic, kind, None, level)
    for topic in list(lockstep.state.chunking.topics):
        sessions = [name for name, session in lockstep.state.sessions.items() if session.topic == topic]
        yield from finishing_chunks(lambda: lockstep.state.chunking, topic, sessions)
    for topic in list(lockstep.state.replication.topics):
        yield from winding_up_clusters(lambda: lockstep.state.replication, topic)
    for topic in list(lockstep.state.topics):
        yield from tracker.settling(lambda: lockstep.state.applications, topic)
        # The log of a terminated topic is final, and nobody can publish to it.
        is_open = not lockstep.state.consumption.topics[topic].is_terminated
        has_pending = any(session.pending for session in lockstep.state.sessions.values())
        if is_open and (has_pending or _unsettled(lockstep.state, topic)):
            yield from _reopening(lockstep, topic)
            yield from _barrier(lockstep, topic)
            yield from _reopening(lockstep, topic)
        followed = lockstep.state.consumption.topics[topic]
        is_deduplicated = lockstep.state.topics[topic].enabled
        if not followed.is_trimmed:
            yield ReadLog(topic, cluster=HOME if lockstep.state.remote_of(topic).is_in_flight else None)
            if followed.log.has_markers:
                yield ReadLog(topic, cluster=AWAY)
            if is_deduplicated and not lockstep.state.applications.has(topic):
                yield ReadSnapshot(topic)
        yield from _winding_up_subscriptions(lockstep, topic)
        yield from tracker.winding_up(lockstep.state.applications, topic)
        yield from _failing_over(lockstep.state, topic)


def _failing_over(state: Example, topic: str) -> Iterator[AnyOperation]:
    """At the other cluster, receive the backlog of each subscription that it has.

    This is last. With a consumer there, the other cluster publishes updates, too, so home acknowledges what it had
    acknowledged before a reset.
    """
    for where, subscription in list(state.consumption.cursors):
        if where == topic and state.consumption.topics[topic].replica is not None:
            yield ReceiveAll(topic, subscription, "Exclusive", cluster=AWAY)


def _winding_up_subscriptions(lockstep: Lockstep, topic: str) -> Iterator[AnyOperation]:
    """Read the state of each subscription, and receive its backlog.

    Where the model no longer tracks subscriptions, a new one reads the whole log.
    """
    if lockstep.state.consumption.topics[topic].has_untracked and topic in lockstep.state.consumption.parts_of(topic):
        yield CreateSubscription(topic, LAST)
    for key, cursor in list(lockstep.state.consumption.cursors.items()):
        # The model stops tracking subscriptions once the log turns out to be unknown.
        if key[0] == topic and cursor.durable and key in lockstep.state.consumption.cursors:
            yield ReadCursor(topic, key[1], after_delays=True)
            limits = lockstep.state.consumption.topics[topic].limits
            is_limited = limits.unacknowledged > 0 or limits.in_all > 0  # where consumers share the messages
            # A Shared dispatcher may not find the consumer of the rest of a chunked message, either.
            has_chunks = bool(lockstep.state.consumption.log(topic).chunks)
            yield ReceiveAll(topic, key[1], "Exclusive" if is_limited or has_chunks else "Shared")


def _unsettled(state: Example, topic: str) -> list[str]:
    """The producers with unknown outcomes."""
    return [name for name in topic_observer.unsettled(state.topics[topic]) if name != BARRIER]


def _reopening(lockstep: Lockstep, topic: str) -> Iterator[AnyOperation]:
    for producer in _unsettled(lockstep.state, topic):
        session = f"again-{topic}-{producer}"
        for live in _live_sessions(lockstep.steps, topic, producer):
            yield CloseProducer(live)
        yield OpenProducer(session=session, topic=topic, producer=producer)


def _barrier(lockstep: Lockstep, topic: str) -> Iterator[AnyOperation]:
    """Send messages of a producer of its own until one is confirmed; failing writes may close it a few times."""
    session, failing = f"{BARRIER}-{topic}", Deadline.after(BARRIER_TIMEOUT_S)
    for number in itertools.count(1):
        yield OpenProducer(session=session, topic=topic, producer=BARRIER)
        yield Send(session=session, entries=(Entry((Message(number, f"{BARRIER}{number}"),)),))
        match lockstep.steps[-1].outcome:
            case Sent(answers=(Stored(),)):
                return
            case _:
                yield CrashProducer(session)
        if number >= BARRIERS:
            if failing.passed:
                because = f"none of {number} messages to topic {topic} is confirmed"
                raise RuleBroken(lockstep.violation(overdue(Broken("SERVE-01", because))))
            time.sleep(BARRIER_PAUSE_S)


def _live_sessions(steps: list[Step], topic: str, producer: str) -> list[str]:
    """The sessions of a producer that are open."""
    live: list[str] = []
    for step in steps:
        match step.operation:
            case OpenProducer(session=session) if isinstance(step.outcome, Opened):
                if (step.operation.topic, step.operation.producer) == (topic, producer):
                    live.append(session)
            case CloseProducer(session) | CrashProducer(session):
                live = [name for name in live if name != session]
            case _:
                pass
    return live
