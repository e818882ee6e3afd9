"""The machines of document 003: consumers acknowledge in every way, and administrators change subscriptions.

They unload topics; :mod:`stateful.cursors.kills` kills the broker.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.expiry_operations import SetTtl
from model.hole_operations import ReceiveHoles
from model.operations import CreateTopic, Terminate, Unload
from model.reader_operations import CloseReader, HasMessageAvailable, ReadNext
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Persistence, Start, SubscriptionType, partition_name
from stateful.cursors.ages import AGES, Ages
from stateful.cursors.base import COUNTS, INDEXES, KINDS, STARTS, TOPIC
from stateful.cursors.beginnings import RecreatedOnPartitions, RecreatedSubscriptions
from stateful.cursors.expiry import EXPIRING, Expiring
from stateful.cursors.holes import HOLES, Holed
from stateful.cursors.readers import AT_BEGINNING, OPENINGS, READINGS, Opening, Reading
from stateful.delays import DELAYS, Delays
from stateful.service.producers import STEPS, Contending
from stateful.service.reads import READS, Asked

NTH = st.lists(st.integers(0, 19), min_size=1, max_size=5, unique=True).map(tuple)
SIZES = st.lists(st.sampled_from([1, 1, 1, 1, 2, 3]), min_size=1, max_size=7)
PERSISTENCE: st.SearchStrategy[Persistence] = st.sampled_from(["shipped", "once-a-second", "every-ack"])
LOOKS_UNTIL_OPEN = 15
"""How many times to look at a cursor until its ledger is open for sure; a look takes 10 ms at least."""
QUEUES = st.sampled_from([0, 0, 0, 2, 100])


class AcknowledgmentMachine(RecreatedSubscriptions):
    """Several subscriptions of one topic, with all operations of consumers and administrators."""

    is_patient = False
    is_over = False
    ends = False
    may_contend: ClassVar[bool] = True
    """Whether producers may contend for its topic."""
    contends = False

    @initialize(
        ends=st.sampled_from([False] * 9 + [True]),
        contends=st.booleans(),
        is_patient=st.sampled_from([False] * 3 + [True]),
        persistence=PERSISTENCE,
        kinds=st.lists(KINDS, min_size=1, max_size=3).map(tuple),
        is_trimmed=st.sampled_from([False, False, False, True]),
        is_deduplicated=st.sampled_from([False, False, True]),
        sizes=SIZES,
        delays=DELAYS,
        ages=AGES,
    )
    def begin(
        self,
        ends: bool,
        contends: bool,
        is_patient: bool,
        persistence: Persistence,
        kinds: tuple[SubscriptionType, ...],
        is_trimmed: bool,
        is_deduplicated: bool,
        sizes: list[int],
        delays: Delays = (),
        ages: Ages = (),
    ) -> None:
        """Create a topic with messages and a consumer. Few examples have time for operations of seconds."""
        self.plan.delays, self.plan.ages = delays, ages
        self.ends = ends
        self.contends = contends and not ends and self.may_contend
        self.is_patient = (
            is_patient and persistence == "once-a-second"
        )  # otherwise there is not much to wait for, or long
        self.is_trimmed = is_trimmed
        self.create(TOPIC, persistence, kinds, is_trimmed=is_trimmed, is_deduplicated=is_deduplicated)
        self.send_entries(sizes)
        self.join(self.subscription(0), "wire", 0)

    @precondition(lambda self: not self.is_over)
    @rule(sizes=SIZES)
    def send(self, sizes: list[int]) -> None:
        """Send single messages and batches."""
        self.send_entries(sizes)

    @rule(index=INDEXES, queue=QUEUES)
    def subscribe(self, index: int, queue: int) -> None:
        """Another consumer subscribes; the broker may refuse it."""
        self.join(self.subscription(index), "wire", queue)

    @rule(index=INDEXES, count=COUNTS)
    def take(self, index: int, count: int) -> None:
        """A consumer receives."""
        self.do(Receive(consumer=self.consumer(index).name, count=count))

    @rule(index=INDEXES, count=COUNTS, nth=NTH, again=st.booleans())
    def take_and_acknowledge(self, index: int, count: int, nth: tuple[int, ...], again: bool) -> None:
        """A consumer receives, then acknowledges some of all messages that it received, maybe twice."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if again:
            self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.read(consumer.subscription)

    @rule(index=INDEXES, nth=NTH)
    def acknowledge(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of all messages that it received."""
        self.do(Acknowledge(consumer=self.consumer(index).name, nth=nth))

    @rule(index=INDEXES, count=COUNTS, nth=st.integers(0, 19), ahead=st.integers(0, 3))
    def acknowledge_up_to(self, index: int, count: int, nth: int, ahead: int) -> None:
        """A consumer acknowledges cumulatively up to a message, perhaps after the ack of a slightly later one."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        if ahead:
            self.do(Acknowledge(consumer=consumer.name, nth=(nth + ahead,)))
        self.do(Acknowledge(consumer=consumer.name, nth=(nth,), cumulative=True))
        self.read(consumer.subscription)

    @rule(
        index=INDEXES, which=st.lists(INDEXES, min_size=1, max_size=4), cumulative=st.sampled_from([False, False, True])
    )
    def acknowledge_others(self, index: int, which: list[int], cumulative: bool) -> None:
        """A consumer acknowledges messages, also messages that it did not receive."""
        consumer = self.consumer(index)
        ids = tuple(self.plan.sent[-1 - number % len(self.plan.sent)] for number in which)
        self.do(AckById(consumer=consumer.name, ids=ids, cumulative=cumulative))
        self.read(consumer.subscription)

    @rule(index=INDEXES, nth=st.none() | NTH, count=COUNTS)
    def fail(self, index: int, nth: tuple[int, ...] | None, count: int) -> None:
        """A consumer nacks some of its messages, or all, and they are redelivered."""
        consumer = self.consumer(index)
        self.do(Nack(consumer=consumer.name, nth=nth))
        self.do(Receive(consumer=consumer.name, count=count))

    @rule(index=INDEXES, crashes=st.booleans(), comes_back=st.booleans(), count=COUNTS)
    def leave(self, index: int, crashes: bool, comes_back: bool, count: int) -> None:
        """A consumer closes or crashes; its pending messages go to others, or to itself when it subscribes again."""
        consumer = self.consumer(index)
        operation = CrashConsumer(consumer.name) if crashes else CloseConsumer(consumer.name)
        self.do(operation)
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        if comes_back:
            again = self.join(consumer.subscription, consumer.client, 0)
            self.do(Receive(consumer=again.name, count=count))

    @rule(count=st.integers(3, 9), nth=st.integers(0, 8), then=st.sampled_from(["fails", "leaves", "crashes", "stays"]))
    def share(self, count: int, nth: int, then: str) -> None:
        """A consumer with pending messages nacks one or leaves; another consumer joins and receives."""
        shared = [name for name, kind in self.plan.kinds.items() if kind == "Shared"]
        if not shared:
            return
        first = self.join(shared[0], "wire", 0)
        self.do(Receive(consumer=first.name, count=count))
        second = self.join(shared[0], "wire", 0)
        if then == "fails":
            self.do(Nack(consumer=first.name, nth=(nth,)))
        elif then != "stays":
            self.do(CrashConsumer(first.name) if then == "crashes" else CloseConsumer(first.name))
            self.plan.consumers.remove(first)
        self.do(Receive(consumer=second.name, count=count))
        self.read(shared[0])

    @rule(start=STARTS, count=COUNTS, nth=st.integers(0, 19), crashes=st.booleans(), moves=st.booleans())
    def read_along(self, start: Start, count: int, nth: int, crashes: bool, moves: bool) -> None:
        """A consumer with a non-durable subscription, which ends with it and with an unload."""
        name = self.plan.fresh_name()
        passing = f"with-{name}"
        self.do(Subscribe(name, TOPIC, passing, kind="Exclusive", start=start, durable=False))
        self.read(passing)
        self.do(Receive(consumer=name, count=count))
        self.do(Acknowledge(consumer=name, nth=(nth,), cumulative=True))
        self.read(passing)
        if moves:
            self.move()
        else:
            self.do(CrashConsumer(name) if crashes else CloseConsumer(name))
        self.read(passing)

    @precondition(lambda self: self.ends)
    @rule(moves=st.booleans(), index=INDEXES, count=st.integers(0, 9))
    def terminate(self, moves: bool, index: int, count: int) -> None:
        """Terminate the topic; consumers go on consuming or skipping its messages."""
        self.ends = False
        self.is_over = True
        self.do(Terminate(topic=TOPIC))
        self.read(self.subscription(index))
        if moves:
            self.move()
        if count:
            self.skip(index, count)

    @rule(index=INDEXES, nth=st.integers(0, 4))
    def read_cursor(self, index: int, nth: int) -> None:
        """Peek at an unacknowledged entry, then read the state of the subscription."""
        if nth:
            self.do(PeekMessage(topic=TOPIC, subscription=self.subscription(index), nth=nth))
        self.read(self.subscription(index))

    @rule(index=INDEXES, takes=st.booleans(), count=COUNTS)
    def unload(self, index: int, takes: bool, count: int) -> None:
        """Unload the topic; no ack may be lost."""
        self.do(Unload(topic=TOPIC))
        self.plan.drop_wire()
        self.do(ReadStoredCursor(topic=TOPIC, subscription=self.subscription(index)))
        self.produce_again()
        self.read(self.subscription(index))
        if takes:
            self.do(Receive(consumer=self.consumer(index).name, count=count))

    @rule(index=INDEXES, count=st.integers(1, 5))
    def skip(self, index: int, count: int) -> None:
        """An administrator skips entries."""
        subscription = self.subscription(index)
        self.do(Skip(topic=TOPIC, subscription=subscription, count=count))
        self.read(subscription)

    @rule(index=INDEXES)
    def skip_all(self, index: int) -> None:
        """An administrator skips everything."""
        subscription = self.subscription(index)
        self.do(SkipAll(topic=TOPIC, subscription=subscription))
        self.read(subscription)

    @rule(index=INDEXES, which=INDEXES)
    def expire(self, index: int, which: int) -> None:
        """Everything up to a message expires."""
        subscription = self.subscription(index)
        up_to = self.plan.sent[which % len(self.plan.sent)]
        self.do(Expire(topic=TOPIC, subscription=subscription, up_to=up_to))
        self.read(subscription)

    @rule(
        expiring=EXPIRING,
        index=INDEXES,
        opening=st.none() | OPENINGS | AT_BEGINNING,
        moves=st.sampled_from([False, False, True]),
        stays=st.sampled_from([False, False, False, True]),
    )
    def expire_older(self, expiring: Expiring, index: int, opening: Opening | None, moves: bool, stays: bool) -> None:
        """Messages expire by their age, beside consumers and readers; a TTL is removed again, or stays in force."""
        if opening is not None:
            self.open_reader(opening, 1)
        request = expiring(TOPIC, self.subscription(index))
        self.do(request)
        if moves:
            self.move()
        for subscription in self.plan.kinds:
            self.read(subscription)
        if isinstance(request, SetTtl) and not stays:
            self.do(SetTtl(TOPIC, None, request.scope))
        for reader in self.readers:
            self.do(ReadNext(reader, 40))

    @rule(opening=OPENINGS, count=COUNTS)
    def open_reader(self, opening: Opening, count: int) -> None:
        """A reader opens and reads some messages."""
        name = self.plan.fresh_name()
        self.readers.append(name)
        self.do(opening(name, TOPIC, self.plan.sent))
        self.do(HasMessageAvailable(name))
        self.do(ReadNext(name, count))

    @precondition(lambda self: self.readers)
    @rule(reading=READINGS, index=INDEXES, count=COUNTS)
    def use_reader(self, reading: Reading, index: int, count: int) -> None:
        """A reader reads, seeks, loses its connection or closes; another one goes on to read."""
        name = self.readers[index % len(self.readers)]
        operation = reading(name, self.plan.sent)
        self.do(operation)
        if isinstance(operation, CloseReader):
            self.readers.remove(name)
        elif not isinstance(operation, ReadNext):
            self.do(ReadNext(name, count))

    @rule(holed=st.lists(HOLES, min_size=1, max_size=2), moves=st.sampled_from([True, True, True, False]))
    def make_holes(self, holed: list[Holed], moves: bool) -> None:
        """Many messages beside the topic are acknowledged with holes between them, before an unload."""
        for how in holed:
            self.do(how(TOPIC))
        if moves:
            self.move()
        self.do(ReceiveHoles(TOPIC))

    @rule(index=INDEXES, first=NTH, nth=NTH)
    def acknowledge_and_move(self, index: int, first: tuple[int, ...], nth: tuple[int, ...]) -> None:
        """A consumer acknowledges twice with a pause, so that the topic is unloaded with the cursor's ledger open."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=9))
        self.do(Acknowledge(consumer=consumer.name, nth=first))
        for _ in range(LOOKS_UNTIL_OPEN):
            self.read(consumer.subscription)
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.move()
        self.read(consumer.subscription)

    @precondition(lambda self: self.contends)
    @rule(steps=STEPS)
    def contend(self, steps: list[Contending]) -> None:
        """Producers contend for the topic."""
        self.contend_for_topic(steps)

    @precondition(lambda self: self.is_patient)
    @rule(index=INDEXES, acks=st.lists(NTH, min_size=3, max_size=8))
    def acknowledge_and_wait(self, index: int, acks: list[tuple[int, ...]]) -> None:
        """Once, a consumer acknowledges in quick succession, and then waits until the acks must be persisted."""
        self.is_patient = False
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=9))
        for nth in acks:
            self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.do(AwaitPersisted(topic=TOPIC, subscription=consumer.subscription))

    @rule(asked=READS, index=INDEXES, which=INDEXES, count=COUNTS)
    def only_read(self, asked: Asked, index: int, which: int, count: int) -> None:
        """Somebody reads, and a consumer goes on to receive."""
        consumer = self.consumer(index)
        self.do(asked(TOPIC, consumer.subscription, self.plan.sent[which % len(self.plan.sent)]))
        self.do(Receive(consumer=consumer.name, count=count))
        self.read(consumer.subscription)


class AcknowledgmentClientsMachine(RecreatedOnPartitions):
    """Consumers of pulsar-client, which group acks and reconnect by themselves; also on partitions."""

    partitions = 0
    is_patient = False

    @initialize(
        is_patient=st.sampled_from([False] * 5 + [True]),
        persistence=PERSISTENCE,
        kinds=st.lists(st.sampled_from(["Shared", "Exclusive", "Failover"]), min_size=1, max_size=2).map(tuple),
        partitions=st.sampled_from([0, 0, 2, 3]),
        sizes=SIZES,
        delays=DELAYS,
    )
    def begin(
        self,
        is_patient: bool,
        persistence: Persistence,
        kinds: tuple[SubscriptionType, ...],
        partitions: int,
        sizes: list[int],
        delays: Delays,
    ) -> None:
        """Create a topic, partitioned or not. Few examples have time for operations of a second."""
        self.plan.delays = delays
        self.is_patient = is_patient
        self.partitions = partitions
        self.do(CreateTopic(topic=TOPIC, persistence=persistence, partitions=partitions))
        self.topics = tuple(partition_name(TOPIC, number) for number in range(partitions)) or (TOPIC,)
        self.plan.subscribed_as(kinds)
        for topic in self.topics:
            self.produce_again(topic)
            self.send_entries(sizes, topic)
        self.join(self.subscription(0), "official", 5)

    @rule(index=INDEXES, sizes=SIZES)
    def send(self, index: int, sizes: list[int]) -> None:
        """Send single messages and batches, to a partition."""
        self.send_entries(sizes, self.topics[index % len(self.topics)])

    @rule(index=INDEXES, queue=st.sampled_from([1, 3, 100]))
    def subscribe(self, index: int, queue: int) -> None:
        """Another consumer subscribes; the broker may refuse it."""
        self.join(self.subscription(index), "official", queue)

    @rule(index=INDEXES, count=COUNTS, nth=NTH, leaves=st.sampled_from(["no", "no", "closes", "crashes"]))
    def take_and_acknowledge(self, index: int, count: int, nth: tuple[int, ...], leaves: str) -> None:
        """A consumer receives and acknowledges some messages; it may leave with grouped acks in its client."""
        consumer = self.consumer(index, client="official", queue=5)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if leaves != "no":
            self.do(CloseConsumer(consumer.name) if leaves == "closes" else CrashConsumer(consumer.name))
            if consumer in self.plan.consumers:
                self.plan.consumers.remove(consumer)
            self.read(consumer.subscription)

    @precondition(lambda self: not self.partitions)
    @rule(index=INDEXES, count=COUNTS, nth=st.integers(0, 19))
    def acknowledge_up_to(self, index: int, count: int, nth: int) -> None:
        """A consumer acknowledges cumulatively up to a message that it received."""
        consumer = self.consumer(index, client="official", queue=5)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=(nth,), cumulative=True))

    @rule(index=INDEXES, nth=st.none() | NTH, count=COUNTS)
    def fail(self, index: int, nth: tuple[int, ...] | None, count: int) -> None:
        """A consumer nacks some of its messages, or all."""
        consumer = self.consumer(index, client="official", queue=5)
        self.do(Nack(consumer=consumer.name, nth=nth))
        self.do(Receive(consumer=consumer.name, count=count))

    @rule(index=INDEXES)
    def unload(self, index: int) -> None:
        """A topic or partition is unloaded; the consumers reconnect by themselves.

        Grouped acks may be lost, and the client may wait in vain. That takes long, so it is seldom.
        """
        topic = self.topics[index % len(self.topics)]
        if not self.is_patient:
            for subscription in self.plan.kinds:
                self.do(ReadCursor(topic=topic, subscription=subscription))
        self.do(Unload(topic=topic))
        self.produce_again(topic)
        self.read(self.subscription(index))

    @precondition(lambda self: self.is_patient)
    @rule(times=st.integers(2, 3))
    def fail_often(self, times: int) -> None:
        """A consumer nacks the same message repeatedly; once in an example."""
        self.is_patient = False
        self.do(NackRepeatedly(topic=self.topics[0], times=times))

    @rule(asked=READS, index=INDEXES, which=INDEXES, count=COUNTS)
    def only_read(self, asked: Asked, index: int, which: int, count: int) -> None:
        """Somebody reads, and a consumer goes on to receive."""
        consumer = self.consumer(index, client="official", queue=5)
        self.do(
            asked(
                self.topics[which % len(self.topics)],
                consumer.subscription,
                self.plan.sent[which % len(self.plan.sent)],
            )
        )
        self.do(Receive(consumer=consumer.name, count=count))
        self.read(consumer.subscription)
