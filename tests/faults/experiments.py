"""Seeded defects whose minimal history is not known yet: the effect of each, as an experiment with one observation.

All others are shown by their histories (``tests/replays``); an entry here goes when its history is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.types import CursorStats
from conformance.clients.outcomes import Receipt, SendOutcome
from conformance.clients.wire.consumer import WireConsumer
from conformance.faults.failpoints import FailpointOnTopic, armed
from tests.faults.keyed import position_of
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


def _cursor(fixture: TopicFixture) -> CursorStats:
    return fixture.admin.internal_stats(fixture.topic).cursors["s"]


def are_at_one_consumer(fixture: TopicFixture) -> Observation:
    """Two Key_Shared consumers share messages of two chunks, a permit at a time: do both chunks go to one of them?"""
    fixture.admin.set_namespace_deduplication(fixture.namespace, False)
    consumers = [
        fixture.client.subscribe(fixture.topic, "s", kind="Key_Shared", initial="earliest", timeout_s=TIMEOUT_S)
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
    "chunk-has-another-hash": Effect(are_at_one_consumer, sound=True, defective=False),
    "unknown-confirmed": Effect(sending_twice_in_flight, (["failed", "stored"], [1]), (["duplicate", "stored"], [1])),
    "snapshot-ahead-of-its-map": Effect(recovering, (5, "duplicate"), (4, "stored")),
    "snapshot-of-pushed": Effect(snapshot_with_a_write_in_flight, {"p": 5}, {"p": 6}),
    "recovery-of-an-older-state": Effect(
        crashing, sound=True, defective=False, settings={"managedLedgerDefaultMarkDeleteRateLimit": "0"}
    ),
    "unacked-limit-in-all-ignored": Effect(receiving_with_a_limit_in_all, sound=0, defective=1),
    "unacked-limit-in-all-never-lifted": Effect(receiving_again_below_a_limit_in_all, sound=True, defective=False),
}
