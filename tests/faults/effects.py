"""The effect of each seeded defect, as an experiment with one observation: a correct broker's, and a defective one's.

These tests show that the defects are real. Other tests show that the machines find them without a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from conformance.clients.outcomes import Receipt, SendOutcome
from conformance.faults.failpoints import Fault, armed
from tests.faults.effect_fixtures import Bench
from tests.polling import TIMEOUT_S, becomes, eventually

Observation = object
Experiment = Callable[[Bench], Observation]


@dataclass(frozen=True, slots=True)
class Effect:
    """An experiment, and its observation without and with the defect.

    ``settings``: what the broker must be configured with, besides the suite's settings and those of the defect.
    """

    experiment: Experiment
    sound: Observation
    defective: Observation
    settings: Mapping[str, str] = field(default_factory=dict)


TRIES = 3


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


def ids(bench: Bench) -> list[int]:
    """The sequence ids in the log."""
    return [sequence_id for _, sequence_id in bench.stored()]


def sending(*sequence_ids: int) -> Experiment:
    """Send ids one after the other: the last answer, and the log."""

    def experiment(bench: Bench) -> Observation:
        return word(bench.send(bench.producer(), *sequence_ids)), ids(bench)

    return experiment


def sending_twice_in_flight(bench: Bench) -> Observation:
    """Resend an id while its first write is in flight: both answers (they do not say for which), and the log."""
    producer = bench.producer()
    with armed(bench.agent, Fault("write-slow", topic=bench.topic, delay_ms=300)) as fault:
        tickets = [producer.send(1, b"first"), producer.send(1, b"second")]
        for ticket in tickets:
            bench.answer(producer, ticket)
        assert fault.fired() == 1
    # Ask again now that both arrived: the client moves an answer when a later one fits better.
    return sorted(word(bench.answer(producer, ticket)) for ticket in tickets), ids(bench)


def sending_again_after_a_failed_write(bench: Bench) -> Observation:
    """Have a write fail, reconnect and resend the id: the first and the second answer, and the log."""
    with armed(bench.agent, Fault("write-fails", topic=bench.topic)) as fault:
        first = word(bench.send(bench.producer(), 1))
        assert fault.fired() == 1
    # The broker disconnects the producer of a failed write. With a defect it may not, and the producer has to make
    # room.
    bench.reconnect()
    return first, word(bench.send(bench.producer(), 1)), ids(bench)


def sending_one_of_a_batch_again(bench: Bench) -> Observation:
    """Send a batch, then one of its messages alone: the answer, and the log."""
    producer = bench.producer()
    batch = producer.send_batch([(1, b"1"), (2, b"2"), (3, b"3")])
    assert word(bench.answer(producer, batch)) == "stored"
    return word(bench.send(producer, 2)), ids(bench)


def sending_under_another_name(bench: Bench) -> Observation:
    """Send a lower id under another name: the answer, and the log."""
    assert word(bench.send(bench.producer("p"), 5)) == "stored"
    return word(bench.send(bench.producer("q"), 3)), bench.stored()


def reopening(bench: Bench) -> Observation:
    """Close a producer and open it again: its last sequence id, and the answer to its last id sent again."""
    producer = bench.producer()
    bench.send(producer, 1)
    producer.close(timeout_s=TIMEOUT_S)
    producer = bench.producer()
    return producer.last_sequence_id, word(bench.send(producer, 1))


def recovering(count: int) -> Experiment:
    """Send ids from 1 and unload the topic: the last sequence id, and the answer to its last id sent again."""

    def experiment(bench: Bench) -> Observation:
        bench.send(bench.producer(), *range(1, count + 1))
        if count >= 5:
            eventually(bench.snapshot)
        bench.unload()
        producer = bench.producer()
        return producer.last_sequence_id, word(bench.send(producer, count))

    return experiment


def snapshot_of_two_producers(bench: Bench) -> Observation:
    """The snapshot after five entries of two producers."""
    bench.send(bench.producer("p"), 1)
    bench.send(bench.producer("q"), 1, 2, 3, 4)
    eventually(bench.snapshot)
    return bench.snapshot()


def snapshot_with_a_write_in_flight(bench: Bench) -> Observation:
    """The snapshot that the fifth entry triggers while the sixth is pushed and not yet persisted."""
    producer = bench.producer()
    bench.send(producer, 1, 2, 3, 4)
    with armed(bench.agent, Fault("write-slow", topic=bench.topic, delay_ms=300)) as fault:
        tickets = [producer.send(5, b"5"), producer.send(6, b"6")]
        assert [word(bench.answer(producer, ticket)) for ticket in tickets] == ["stored", "stored"]
        assert fault.fired() == 1
    eventually(bench.snapshot)
    return bench.snapshot()


def sending_again_after_a_failed_snapshot(bench: Bench) -> Observation:
    """Have a snapshot fail, and resend the last id repeatedly: whether it is stored once more.

    The broker handles the failure in a separate thread, after the failpoint fired.
    """
    producer = bench.producer()
    with armed(bench.agent, Fault("snapshot-write-fails", topic=bench.topic)) as fault:
        bench.send(producer, 1, 2, 3, 4, 5)
        eventually(lambda: fault.fired() == 1)
    return becomes(lambda: word(bench.send(producer, 5)) == "stored")


def switching_while_loaded(bench: Bench) -> Observation:
    """Disable and enable deduplication of a loaded topic: whether it follows."""
    bench.send(bench.producer(), 1)
    followed = []
    for enabled, status in ((False, "Disabled"), (True, "Enabled")):
        bench.admin.set_namespace_deduplication(bench.namespace, enabled)
        followed.append(becomes(partial(bench.has_deduplication_status, status)))
    return followed


def highest_id_after_a_batch(bench: Bench) -> Observation:
    """Send a batch and some messages: the highest id that the receipt of the batch has, and that all of them have."""
    producer = bench.producer()
    receipt = bench.answer(producer, producer.send_batch([(1, b"1"), (2, b"2"), (3, b"3")]))
    assert isinstance(receipt, Receipt)
    bench.send(producer, 4, 5)
    return receipt.highest_sequence_id, producer.last_sequence_id


def takes_snapshot(*, is_timed: bool, entries: int, by_topic: bool = False) -> Experiment:
    """Two producers send so many entries: whether a snapshot is taken, by the timer or by their number."""

    def experiment(bench: Bench) -> Observation:
        bench.admin.set_deduplication_snapshot_interval(bench.namespace, int(is_timed))
        if by_topic:
            bench.admin.create_topic(bench.topic)
            bench.admin.set_topic_deduplication(bench.topic, True)
            eventually(lambda: bench.admin.topic_deduplication(bench.topic) is True)
        first, second = bench.producer("p"), bench.producer("q")
        for sequence_id in range(1, entries + 1):
            bench.send(first if sequence_id % 2 else second, sequence_id)
        return becomes(lambda: bool(bench.snapshot()), within_s=5.0)

    return experiment


def taking_over_a_subscription(bench: Bench) -> Observation:
    """A consumer leaves without acknowledging its messages: the first message that the next one receives."""
    bench.send(bench.producer(), 1, 2)
    received = []
    for _ in range(2):
        consumer = bench.client.subscribe(bench.topic, "s", kind="Exclusive", initial="earliest", timeout_s=TIMEOUT_S)
        consumer.flow(1)
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
        assert delivery is not None
        received.append(delivery.sequence_id)
        consumer.close(timeout_s=TIMEOUT_S)
    return received


EFFECTS: dict[str, Effect] = {
    "check-removed": Effect(sending(1, 2, 1), ("duplicate", [1, 2]), ("stored", [1, 2, 1])),
    "equal-id-stored-again": Effect(sending(1, 2, 1, 2), ("duplicate", [1, 2]), ("stored", [1, 2, 2])),
    "duplicate-refused": Effect(sending(1, 1), ("duplicate", [1]), ("failed", [1])),
    "duplicate-stored-too": Effect(sending(1, 1, 2), ("stored", [1, 2]), ("stored", [1, 1, 2])),
    "duplicate-lowers-the-id": Effect(sending(1, 2, 3, 1, 3), ("duplicate", [1, 2, 3]), ("stored", [1, 2, 3, 3])),
    "gap-refused": Effect(sending(1, 3), ("stored", [1, 3]), ("failed", [1])),
    "persisted-never-raised": Effect(sending(1, 1), ("duplicate", [1]), ("failed", [1])),
    "unknown-confirmed": Effect(sending_twice_in_flight, (["failed", "stored"], [1]), (["duplicate", "stored"], [1])),
    "unknown-stored": Effect(sending_twice_in_flight, (["failed", "stored"], [1]), (["stored", "stored"], [1, 1])),
    "pushed-not-reset": Effect(sending_again_after_a_failed_write, ("failed", "stored", [1]), ("failed", "failed", [])),
    "persisted-raised-early": Effect(
        sending_again_after_a_failed_write, ("failed", "stored", [1]), ("failed", "duplicate", [])
    ),
    "failed-write-confirmed": Effect(
        sending_again_after_a_failed_write, ("failed", "stored", [1]), ("duplicate", "failed", [])
    ),
    "confirmed-not-stored": Effect(sending(*range(1, 9)), ("stored", [*range(1, 9)]), ("stored", [*range(1, 7), 8])),
    "batch-highest-ignored": Effect(sending_one_of_a_batch_again, ("duplicate", [1, 2, 3]), ("stored", [1, 2, 3, 2])),
    "producers-as-one": Effect(sending_under_another_name, ("stored", [("p", 5), ("q", 3)]), ("duplicate", [("p", 5)])),
    "producer-forgotten": Effect(reopening, (1, "duplicate"), (-1, "stored")),
    "last-id-always-none": Effect(reopening, (1, "duplicate"), (-1, "duplicate")),
    "last-id-too-high": Effect(reopening, (1, "duplicate"), (2, "duplicate")),
    "switch-ignored": Effect(switching_while_loaded, [True, True], [False, True]),
    "replay-skipped": Effect(recovering(8), (8, "duplicate"), (5, "stored")),
    "replay-one-late": Effect(recovering(6), (6, "duplicate"), (5, "stored")),
    "snapshot-ahead-of-its-map": Effect(recovering(5), (5, "duplicate"), (4, "stored")),
    "snapshot-omits-producer": Effect(snapshot_of_two_producers, {"p": 1, "q": 4}, {"q": 4}),
    "snapshot-of-pushed": Effect(snapshot_with_a_write_in_flight, {"p": 5}, {"p": 6}),
    "snapshot-failure-clears-state": Effect(sending_again_after_a_failed_snapshot, False, True),
    "receipt-of-first-message": Effect(highest_id_after_a_batch, (3, 5), (1, 5)),
    "receipt-one-too-high": Effect(highest_id_after_a_batch, (3, 5), (3, 6)),
    "timer-passes-topic-over": Effect(takes_snapshot(is_timed=True, entries=2), True, False),
    "counter-of-entries-reset": Effect(takes_snapshot(is_timed=False, entries=5), True, False),
    "no-snapshot-by-topic-policy": Effect(takes_snapshot(is_timed=False, entries=5, by_topic=True), True, False),
    "takeover-skips-unacknowledged": Effect(taking_over_a_subscription, [1, 1], [1, 2]),
}
"""For each defect, by its name, how its effect is observed."""
