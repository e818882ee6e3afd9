"""The uniform machine: it draws operations of the vocabulary at random, each as likely as every other one.

It is what the machines of ``stateful`` are compared with. It has no steering (no sequences of operations that belong
together, no arguments that are likelier than others), no swarm testing and no plans. It respects what an operation
needs in order not to be skipped (an open producer, a consumer that exists), and what a client cannot do. Topics,
chunked topics and applications have operations of their own, so there is a machine for each; and, as killing takes
seconds, another one that also kills and restarts the broker. They can do what one broker of one cluster allows
(:mod:`tests.quality.finding.draws` says what is left out). It is for measurement only: ``check`` does not offer it.

Hypothesis draws a seed, from which everything follows: its own choices are not uniform.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from conformance.engine.catalogue import Description
from conformance.engine.machines import Machine, with_factory
from model.operations import (
    AnyOperation,
    CloseProducer,
    Consume,
    CrashProducer,
    CrashSource,
    CreateTopic,
    CutAfterSends,
    FinishSource,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    ReadChunkRate,
    Restart,
    RunReader,
    RunSubscriber,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    Unload,
    UseProxy,
)
from model.subscription_operations import (
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutDuring,
    DeleteSubscription,
    Receive,
    ReceiveAll,
    ReceiveDue,
    ResetCursor,
    Seek,
    Subscribe,
)
from model.vocabulary import SubscriptionId
from stateful.deduplication.plan import PlannedSession
from stateful.lockstep_machine import LockstepMachine, Performing
from tests.quality.finding.consumer_draws import OF_APPLICATIONS, OF_CHUNKS, OF_CONSUMERS_AND_CURSORS
from tests.quality.finding.draws import BOUNCES, FAULTS, ON_CHUNKED_TOPICS, ON_TOPICS, Draw, created, unload
from tests.quality.finding.names import Names, OpenConsumer, Source

SEEDS = st.tuples(*[st.integers(0, 0xFFFF)] * 4)
"""Hypothesis draws numbers of sixteen bits uniformly, and larger ones not."""


class UniformMachine(LockstepMachine):
    """Operations on topics, their producers, subscriptions and consumers."""

    draws: ClassVar[Mapping[type[AnyOperation], Draw]] = {**ON_TOPICS, **FAULTS, **OF_CONSUMERS_AND_CURSORS}

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.names = Names(Random(0))

    @initialize(seed=SEEDS)
    def begin(self, seed: tuple[int, ...]) -> None:
        """There are a topic, a producer and a consumer, as without them most examples come to nothing."""
        self.names = Names(Random(str(seed)))
        for kind in (CreateTopic, OpenProducer, Subscribe):
            if kind in self.draws:
                self.draw(kind)

    @rule()
    def step(self) -> None:
        """Any operation; another one, if there is nothing to do it to."""
        kinds = list(self.draws)
        while not self.draw(self.names.chance.choice(kinds)):
            pass

    def draw(self, kind: type[AnyOperation]) -> bool:
        """Perform an operation of a kind, if there is something to do it to."""
        operation = self.draws[kind](self.names)
        if operation is None:
            return False
        self.do(operation)
        note(self.names, operation)
        return True


class UniformKillsMachine(UniformMachine):
    """The same with kills and restarts."""

    draws = {**UniformMachine.draws, **BOUNCES}


class UniformChunksMachine(UniformMachine):
    """Operations on topics with chunked messages."""

    draws = {**ON_CHUNKED_TOPICS, **OF_CHUNKS}


class UniformChunksKillsMachine(UniformMachine):
    """The same with kills and restarts."""

    draws = {**UniformChunksMachine.draws, **BOUNCES}


class UniformApplicationsMachine(UniformMachine):
    """What applications do, and what happens to their topics."""

    draws = {**OF_APPLICATIONS, **FAULTS, Unload: unload}


class UniformApplicationsKillsMachine(UniformMachine):
    """The same with kills and restarts."""

    draws = {**UniformApplicationsMachine.draws, **BOUNCES}


KILLS_SHARE: Final = 0.25
"""The share of the machines that kill and restart, about that of ``stateful``'s."""


def _with_kills(name: str, factory: type[UniformMachine], killing: type[UniformMachine]) -> tuple[Machine, Machine]:
    quick = Description(name=name, decides=(), steps=80, examples=10)
    kills = Description(name=f"{name}-kills", decides=(), share=KILLS_SHARE, steps=20, examples=2, affects="broker")
    return with_factory(quick, factory), with_factory(kills, killing)


TOPICS_MACHINES = _with_kills("uniform", UniformMachine, UniformKillsMachine)
CHUNKS_MACHINES = _with_kills("uniform-chunks", UniformChunksMachine, UniformChunksKillsMachine)
APPLICATIONS_MACHINES = _with_kills("uniform-applications", UniformApplicationsMachine, UniformApplicationsKillsMachine)


def note(names: Names, operation: AnyOperation) -> None:
    """Note what an operation changes for those after it, whatever its outcome."""
    match operation:
        case CreateTopic(topic=topic):
            names.topics[topic] = created(names, operation)
        case OpenProducer(session=session, topic=topic, producer=producer, client=client):
            if not any((one.topic, one.producer) == (topic, producer) for one in names.sessions):
                names.sessions.append(PlannedSession(session, topic, producer, client))
        case CloseProducer(session) | CrashProducer(session):
            names.sessions = [one for one in names.sessions if one.name != session]
        case Send(session=session, interruption=cut):
            sender = next(one for one in names.sessions if one.name == session)
            names.topic_of(sender.topic).is_written = True
            if isinstance(cut, CutAfterSends) and cut.meanwhile == "dies":
                names.sessions.remove(sender)
        case Unload(topic=topic):
            names.reloaded(topic)
        case ReadChunkRate(session=session):
            used = next(one for one in names.sessions if one.name == session)
            names.sessions.remove(used)
            names.topic_of(used.topic).is_written = True
            names.rated.add((used.topic, used.producer))
        case Consume():
            names.has_consumed = True
        case Kill() | Restart():
            names.reloaded()
        case SetDeduplication(topic=topic, on=True):
            names.topic_of(topic).has_snapshots = True
        case UseProxy():
            names.is_proxied = True
        case SetFailpoint() | InjectNetworkFault():
            names.is_disturbed = True
        case StartSource() | FinishSource() | CrashSource():
            _note_source(names, operation)
        case RunReader(program=program) | RunSubscriber(program=program):
            names.programs.add(program)
        case _:
            _note_consumers(names, operation)


def _note_source(names: Names, operation: StartSource | FinishSource | CrashSource) -> None:
    source = next((one for one in names.sources if one.name == operation.source), None)
    if isinstance(operation, StartSource):
        if source is None:
            source = Source(operation.source, operation.topic, operation.goes_on, operation.client)
            names.sources.append(source)
        source.highest = operation.entries[-1].highest
    assert source is not None
    source.is_started = isinstance(operation, StartSource)


def _note_consumers(names: Names, operation: AnyOperation) -> None:
    match operation:
        case CreateSubscription(topic=topic, subscription=subscription):
            names.subscriptions.add(SubscriptionId(topic, subscription))
        case Subscribe(topic=topic, subscription=subscription):
            if operation.durable:
                names.subscriptions |= {SubscriptionId(part, subscription) for part in names.topic_of(topic).parts}
            consumer = OpenConsumer(
                operation.consumer,
                SubscriptionId(topic, subscription),
                operation.kind,
                operation.client,
                is_proxied=operation.proxied,
            )
            others = {one.kind for one in names.consumers if one.id == consumer.id}
            if not others or (others == {consumer.kind} and consumer.kind != "Exclusive"):
                names.consumers.append(consumer)
        case Receive(consumer=name):
            receiver = next(one for one in names.consumers if one.name == name)
            receiver.has_received = names.topic_of(receiver.id.topic).is_written
        case ReceiveDue(topic=topic, subscription=subscription):
            for one in names.consumers:
                if one.id == SubscriptionId(topic, subscription):
                    one.has_received = names.topic_of(topic).is_written
        case DeleteSubscription(topic=topic, subscription=subscription):
            subscription_id = SubscriptionId(topic, subscription)
            if not any(one.id == subscription_id for one in names.consumers):
                names.subscriptions.discard(subscription_id)
        case CloseConsumer(consumer) | CrashConsumer(consumer):
            names.consumers = [one for one in names.consumers if one.name != consumer]
        case CutDuring():
            names.consumers = [one for one in names.consumers if one.name != operation.actor]
        case Seek(consumer):
            names.disconnected(next(one.id for one in names.consumers if one.name == consumer))
        case ResetCursor(topic=topic, subscription=subscription) | ReceiveAll(topic=topic, subscription=subscription):
            names.disconnected(SubscriptionId(topic, subscription))
        case _:
            pass
