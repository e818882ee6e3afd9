"""Seeded defects whose minimal history is not known yet: the effect of each, as an experiment with one observation.

All others are shown by their histories (``tests/replays``); an entry here goes when its history is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.types import CursorStats
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt, SendOutcome, ServerRefused
from conformance.clients.wire.consumer import Kind, WireConsumer
from conformance.faults.failpoints import FailpointOnTopic, armed
from model.key_shared.hashes import STICKY_HASHES, sticky_hash
from model.log import Position
from tests.faults.keyed import Keyed, all_received, numbered_keys, position_of
from tests.faults.topic_fixture import TopicFixture
from tests.waits import TIMEOUT_S, becomes, eventually

Observation = object
Experiment = Callable[[TopicFixture], Observation]
TRIES = 3
MESSAGES = 10
LIMIT = 3
SHORT_S = 2.0
"""How long is waited for a message that may not come."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An experiment, and its observation without and with the defect, on a broker with these settings."""

    experiment: Experiment
    sound: Observation
    defective: Observation
    settings: Mapping[str, str] = field(default_factory=dict)


def seen(wanted: Observation, observe: Callable[[], Observation]) -> Observation:
    """The expected observation if one of a few experiments gives it, else that of the last one.

    An experiment observes what happens within some time, during which a busy machine may stall. The expected
    observation of a defective broker and that of the same broker without the defect differ, so repeating is safe.
    """
    for _ in range(TRIES):
        observation = observe()
        if observation == wanted:
            break
    return observation


def word(outcome: SendOutcome) -> str:
    """The producer's view of a send outcome, in a word."""
    if isinstance(outcome, Receipt):
        return "stored" if outcome.position else "duplicate"
    return "failed"


def ids(fixture: TopicFixture) -> list[int]:
    """The sequence ids in the log."""
    return [sequence_id for _, sequence_id in fixture.stored()]


def sending_twice_in_flight(fixture: TopicFixture) -> Observation:
    """Resend an id while its first write is in flight: both answers (they do not say for which), and the log."""
    producer = fixture.producer()
    with armed(fixture.agent, FailpointOnTopic("write-slow", topic=fixture.topic, delay_ms=300)) as fault:
        tickets = [producer.send(1, b"first"), producer.send(1, b"second")]
        for ticket in tickets:
            fixture.answer(producer, ticket)
        assert fault.fired() == 1
    # Ask again now that both arrived: the client moves an answer when a later one fits better.
    return sorted(word(fixture.answer(producer, ticket)) for ticket in tickets), ids(fixture)


def sending_again_after_a_failed_write(fixture: TopicFixture) -> Observation:
    """Have a write fail, reconnect and resend the id: the first and the second answer, and the log."""
    with armed(fixture.agent, FailpointOnTopic("write-fails", topic=fixture.topic)) as fault:
        first = word(fixture.send(fixture.producer(), 1))
        assert fault.fired() == 1
    fixture.reconnect()
    return first, word(fixture.send(fixture.producer(), 1)), ids(fixture)


def recovering(fixture: TopicFixture) -> Observation:
    """Send five ids and unload the topic: the last sequence id, and the answer to its last id sent again."""
    fixture.send(fixture.producer(), *range(1, 6))
    eventually(fixture.snapshot)
    fixture.unload()
    producer = fixture.producer()
    return producer.last_sequence_id, word(fixture.send(producer, 5))


def snapshot_with_a_write_in_flight(fixture: TopicFixture) -> Observation:
    """The snapshot that the fifth entry triggers while the sixth is pushed and not yet persisted."""
    producer = fixture.producer()
    fixture.send(producer, 1, 2, 3, 4)
    with armed(fixture.agent, FailpointOnTopic("write-slow", topic=fixture.topic, delay_ms=300)) as fault:
        tickets = [producer.send(5, b"5"), producer.send(6, b"6")]
        assert [word(fixture.answer(producer, ticket)) for ticket in tickets] == ["stored", "stored"]
        assert fault.fired() == 1
    eventually(fixture.snapshot)
    return fixture.snapshot()


def crashing(fixture: TopicFixture) -> Observation:
    """Acknowledge two messages one after the other, each of them persisted, and kill the broker: their states."""
    producer = fixture.producer()
    messages = []
    for number in range(1, 9):
        receipt = fixture.send(producer, number)
        assert isinstance(receipt, Receipt)
        assert receipt.position is not None
        messages.append(receipt.position)
    consumer = fixture.client.subscribe(fixture.topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    for message in (messages[0], messages[6]):
        entries = _cursor(fixture).cursor_ledger_last_entry
        consumer.ack([message])
        eventually(lambda entries=entries: _cursor(fixture).cursor_ledger_last_entry > entries)  # type: ignore[misc]
    fixture.kill()
    fixture.client.subscribe(fixture.topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    ranges = _cursor(fixture).acknowledged_ranges
    return any(each.after < messages[6] <= each.last for each in ranges)


def moving_and_crashing(fixture: TopicFixture) -> Observation:
    """Skip three of 8 messages on one subscription, create another at the end; kill the broker: how far both are."""
    producer, messages = fixture.producer(), []
    for number in range(1, 9):
        receipt = fixture.send(producer, number)
        assert isinstance(receipt, Receipt)
        assert receipt.position is not None
        messages.append(receipt.position)
    fixture.client.subscribe(fixture.topic, "u", kind="Shared", initial="latest", timeout_s=TIMEOUT_S)
    fixture.client.subscribe(fixture.topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    fixture.admin.skip(fixture.topic, "s", 3)
    fixture.kill()
    fixture.client.subscribe(fixture.topic, "v", kind="Shared", initial="latest", timeout_s=TIMEOUT_S)  # once more
    cursors = fixture.admin.internal_stats(fixture.topic).cursors
    ends = [Position.parse(cursors[name].mark_delete_position) for name in ("s", "u")]
    return [sum(message <= end for message in messages) for end in ends]


def _cursor(fixture: TopicFixture) -> CursorStats:
    return fixture.admin.internal_stats(fixture.topic).cursors["s"]


def receiving_chunks(fixture: TopicFixture) -> Observation:
    """Send a message of three chunks and a small one to a Shared consumer: whether it receives both."""
    fixture.admin.set_namespace_deduplication(fixture.namespace, False)
    large = b"0123456789" * 2500
    delivered: list[bytes] = []
    with OfficialClient(fixture.broker.addresses.service, timeout_s=TIMEOUT_S) as client:
        consumer = client.subscribe(fixture.topic, "s", kind="Shared", initial="earliest")
        producer = client.open_producer(fixture.topic, name="p", chunking=True)
        for ticket in [producer.send(1, large), producer.send(2, b"small")]:
            assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt)

        def is_delivered() -> bool:
            if (delivery := consumer.receive(timeout_s=1.0)) is not None:
                delivered.append(delivery.payload)
            return large in delivered

        return becomes(is_delivered, within_s=5)


def claiming_ranges(fixture: TopicFixture) -> Observation:
    """A key of ``a``, one right before the range of ``b``, and one of b: what each receives; is an overlap refused?"""
    keyed = Keyed(fixture)
    low, gap, high = sorted(islice(numbered_keys(), 3), key=lambda key: sticky_hash(key.encode(), STICKY_HASHES))
    first = keyed.claim("a", 0, sticky_hash(low.encode(), STICKY_HASHES))
    second = keyed.claim("b", sticky_hash(gap.encode(), STICKY_HASHES) + 1, STICKY_HASHES.last)
    keyed.send(low, gap, high)
    received = all_received(first, at_least=1), all_received(second, at_least=1)
    try:
        keyed.claim("c", 0, 0)
    except ServerRefused:
        return (*received, True)
    return (*received, False)


def highest_id_after_a_batch(fixture: TopicFixture) -> Observation:
    """Send a batch and some messages: the highest id that the receipt of the batch has, and that all of them have."""
    producer = fixture.producer()
    receipt = fixture.answer(producer, producer.send_batch([(1, b"1"), (2, b"2"), (3, b"3")]))
    assert isinstance(receipt, Receipt)
    fixture.send(producer, 4, 5)
    return receipt.highest_sequence_id, producer.last_sequence_id


def takes_snapshot(*, is_timed: bool, entries: int, by_topic: bool = False) -> Experiment:
    """Two producers send so many entries: whether a snapshot is taken, by the timer or by their number."""

    def experiment(fixture: TopicFixture) -> Observation:
        fixture.admin.set_deduplication_snapshot_interval(fixture.namespace, int(is_timed))
        if by_topic:
            fixture.admin.create_topic(fixture.topic)
            fixture.admin.set_topic_deduplication(fixture.topic, True)
            eventually(lambda: fixture.admin.topic_deduplication(fixture.topic) is True)
        first, second = fixture.producer("p"), fixture.producer("q")
        for sequence_id in range(1, entries + 1):
            fixture.send(first if sequence_id % 2 else second, sequence_id)
        return becomes(lambda: bool(fixture.snapshot()), within_s=5.0)

    return experiment


def are_at_one_consumer(fixture: TopicFixture, kind: Kind) -> Observation:
    """Two consumers share messages of two chunks, with a permit at a time: whether both chunks go to one of them."""
    fixture.admin.set_namespace_deduplication(fixture.namespace, False)
    consumers = [
        fixture.client.subscribe(fixture.topic, "s", kind=kind, initial="earliest", timeout_s=TIMEOUT_S)
        for _ in range(2)
    ]
    producer = fixture.producer()
    for number in range(MESSAGES):
        for chunk_id in range(2):
            metadata = pb.MessageMetadata(
                uuid=f"u{number}", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=2
            )
            assert word(fixture.answer(producer, producer.send(number + 1, b"x", metadata=metadata))) == "stored"
    at: defaultdict[int, set[int]] = defaultdict(set)
    received = 0

    def are_all_received() -> bool:
        nonlocal received
        for index, consumer in enumerate(consumers):
            consumer.flow(1)
            while (delivery := consumer.receive(timeout_s=0.05)) is not None:
                at[delivery.sequence_id].add(index)
                received += 1
        return received >= 2 * MESSAGES or any(len(indexes) > 1 for indexes in at.values())

    assert becomes(are_all_received, within_s=TIMEOUT_S)
    return all(len(indexes) == 1 for indexes in at.values())


def given(consumer: WireConsumer, permits: int) -> int:
    """How many messages a consumer gets with so many more permits."""
    consumer.flow(permits)
    count = 0
    while consumer.receive(timeout_s=SHORT_S if not count else 0.5) is not None:
        count += 1
    return count


def subscribed(fixture: TopicFixture, name: str) -> WireConsumer:
    """A consumer that shares the messages with others."""
    return fixture.client.subscribe(
        fixture.topic, "s", kind="Shared", initial="earliest", consumer_name=name, timeout_s=TIMEOUT_S
    )


def receiving_with_a_limit_in_all(fixture: TopicFixture) -> Observation:
    """Reach a subscription's limit with one consumer, and ask for a message with another: how many come."""
    fixture.admin.set_max_unacknowledged_in_all(fixture.namespace, LIMIT)
    fixture.send(fixture.producer(), *range(1, 2 * LIMIT + 1))
    first = subscribed(fixture, "c1")
    for _ in range(LIMIT):
        given(first, 1)
    return given(subscribed(fixture, "c2"), 1)


def receiving_again_below_a_limit_in_all(fixture: TopicFixture) -> Observation:
    """Reach a subscription's limit, acknowledge everything, and ask for more: whether some come."""
    fixture.admin.set_max_unacknowledged_in_all(fixture.namespace, LIMIT)
    producer = fixture.producer()
    messages = [position_of(fixture.send(producer, number)) for number in range(1, 2 * LIMIT + 1)]
    consumer = subscribed(fixture, "c1")
    for _ in range(LIMIT):
        given(consumer, 1)
    consumer.ack(messages[:LIMIT])
    return given(consumer, 1) > 0


EXPERIMENTS: dict[str, Effect] = {
    "receipt-of-first-message": Effect(highest_id_after_a_batch, (3, 5), (1, 5)),
    "receipt-one-too-high": Effect(highest_id_after_a_batch, (3, 5), (3, 6)),
    "timer-passes-topic-over": Effect(takes_snapshot(is_timed=True, entries=2), True, False),
    "counter-of-entries-reset": Effect(takes_snapshot(is_timed=False, entries=5), True, False),
    "no-snapshot-by-topic-policy": Effect(takes_snapshot(is_timed=False, entries=5, by_topic=True), True, False),
    "chunk-goes-to-next-consumer": Effect(partial(are_at_one_consumer, kind="Shared"), True, False),
    "chunk-has-another-hash": Effect(partial(are_at_one_consumer, kind="Key_Shared"), True, False),
    "unknown-confirmed": Effect(sending_twice_in_flight, (["failed", "stored"], [1]), (["duplicate", "stored"], [1])),
    "pushed-not-reset": Effect(sending_again_after_a_failed_write, ("failed", "stored", [1]), ("failed", "failed", [])),
    "snapshot-ahead-of-its-map": Effect(recovering, (5, "duplicate"), (4, "stored")),
    "snapshot-of-pushed": Effect(snapshot_with_a_write_in_flight, {"p": 5}, {"p": 6}),
    "recovery-of-an-older-state": Effect(
        crashing, sound=True, defective=False, settings={"managedLedgerDefaultMarkDeleteRateLimit": "0"}
    ),
    "unclaimed-hash-assigned": Effect(claiming_ranges, ([1], [3], True), ([1, 2], [3], True)),
    "created-at-latest-not-persisted": Effect(moving_and_crashing, [3, 8], [3, 0]),
    "chunk-not-assigned": Effect(receiving_chunks, sound=True, defective=False),
    "unacked-limit-in-all-ignored": Effect(receiving_with_a_limit_in_all, sound=0, defective=1),
    "unacked-limit-in-all-never-lifted": Effect(receiving_again_below_a_limit_in_all, sound=True, defective=False),
}
