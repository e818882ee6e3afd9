"""The effect of each seeded defect of acks and cursors (document 003); see ``effects``.

Messages are numbered from 1, in the order of the log; a ledger has five of them. The state of a subscription is given
in these numbers: the last message before mark-delete, and the acknowledged ones after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.clients.admin.types import CursorStats
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.consumer import Kind, PartOfBatch, WireConsumer
from model.log import Position
from tests.faults.effect_fixtures import Bench
from tests.faults.effects import Effect, Experiment, Observation
from tests.polling import TIMEOUT_S, becomes, eventually

Remembered = tuple[int, list[int]]
"""The last message up to which all are acknowledged, and the acknowledged ones after it."""


def filled(bench: Bench, count: int) -> list[Position]:
    """Send this many messages, and return their positions."""
    producer = bench.producer()
    return [position_of(bench.send(producer, number)) for number in range(1, count + 1)]


def subscribed(bench: Bench, subscription: str = "s", *, kind: Kind = "Shared") -> WireConsumer:
    """A consumer that starts at the beginning of the topic."""
    return bench.client.subscribe(bench.topic, subscription, kind=kind, initial="earliest", timeout_s=TIMEOUT_S)


def remembered(bench: Bench, messages: Sequence[Position], subscription: str = "s") -> Remembered:
    """The state of a subscription, according to the broker's stats."""
    cursor = bench.admin.internal_stats(bench.topic).cursors[subscription]
    mark_delete = Position.parse(cursor.mark_delete_position)
    ranges = cursor.acknowledged_ranges
    return (
        sum(message <= mark_delete for message in messages),
        [
            number
            for number, message in enumerate(messages, 1)
            if message > mark_delete and any(each.after < message <= each.last for each in ranges)
        ],
    )


def acknowledging(count: int, *numbers: int) -> Experiment:
    """Acknowledge some of ``count`` messages one by one: the state."""

    def experiment(bench: Bench) -> Observation:
        messages = filled(bench, count)
        consumer = subscribed(bench)
        for number in numbers:
            consumer.ack([messages[number - 1]])
        return remembered(bench, messages)

    return experiment


def acknowledging_in_one_command(bench: Bench) -> Observation:
    """Acknowledge several messages in one command, like a client that groups its acks: the state."""
    messages = filled(bench, 5)
    subscribed(bench).ack([messages[0], messages[2], messages[3]])
    return remembered(bench, messages)


def acknowledging_up_to(*numbers: int) -> Experiment:
    """Acknowledge cumulatively, in this order, of 8 messages: the state."""

    def experiment(bench: Bench) -> Observation:
        messages = filled(bench, 8)
        consumer = subscribed(bench, kind="Exclusive")
        for number in numbers:
            consumer.ack([messages[number - 1]], cumulative=True)
        return remembered(bench, messages)

    return experiment


def acknowledging_on_two_subscriptions(bench: Bench) -> Observation:
    """Acknowledge the first message on one subscription, the third on the other: the states of both."""
    messages = filled(bench, 3)
    consumers = [subscribed(bench, subscription) for subscription in ("s", "t")]
    for consumer, number in zip(consumers, (1, 3), strict=True):
        consumer.ack([messages[number - 1]])
    both = [remembered(bench, messages, subscription) for subscription in ("s", "t")]
    return sorted(up_to + len(behind) for up_to, behind in both)


def recovering_cursor(count: int, *numbers: int) -> Experiment:
    """Acknowledge some of ``count`` messages and unload the topic: the state."""

    def experiment(bench: Bench) -> Observation:
        messages = filled(bench, count)
        consumer = subscribed(bench)
        acknowledge_and_persist(bench, consumer, [messages[number - 1] for number in numbers])
        bench.unload()
        subscribed(bench)
        return remembered(bench, messages)

    return experiment


def acknowledging_part_of_a_batch(bench: Bench) -> Observation:
    """Acknowledge the second of four messages of a batch: which of them the next consumer receives."""
    producer = bench.producer()
    batch = producer.send_batch([(number, b"%d" % number) for number in (1, 2, 3, 4)])
    position = position_of(bench.answer(producer, batch))
    consumer = subscribed(bench)
    consumer.ack([PartOfBatch(position=position, batch_size=4, still_unacknowledged=frozenset({0, 2, 3}))])
    consumer.close(timeout_s=TIMEOUT_S)
    consumer = subscribed(bench)
    consumer.flow(10)
    return [index + 1 for index in _batch_indexes(consumer)]


def closing_with_a_later_ack(bench: Bench) -> Observation:
    """Acknowledge one message, and once that is persisted another one; unload the topic."""
    messages = filled(bench, 5)
    consumer = subscribed(bench)
    acknowledge_and_persist(bench, consumer, [messages[0]])
    consumer.ack([messages[1]])
    bench.unload()
    subscribed(bench)
    return remembered(bench, messages)


def crashing(bench: Bench) -> Observation:
    """Acknowledge two messages one after the other, each of them persisted, and kill the broker: the state."""
    messages = filled(bench, 8)
    consumer = subscribed(bench)
    acknowledge_and_persist(bench, consumer, [messages[0]])
    entries = _cursor(bench).cursor_ledger_last_entry
    consumer.ack([messages[6]])
    eventually(lambda: _cursor(bench).cursor_ledger_last_entry > entries)
    bench.kill()
    subscribed(bench)
    return remembered(bench, messages)


def crashing_with_part_of_a_batch(bench: Bench) -> Observation:
    """Acknowledge one message of a batch and one after it, and kill the broker: which ones are redelivered."""
    producer = bench.producer()
    batch = position_of(bench.answer(producer, producer.send_batch([(1, b""), (2, b""), (3, b"")])))
    alone = position_of(bench.send(producer, 4))
    part = PartOfBatch(position=batch, batch_size=3, still_unacknowledged=frozenset({0, 2}))
    acknowledge_and_persist(bench, subscribed(bench), [part, alone])
    bench.kill()
    consumer = subscribed(bench)
    consumer.flow(10)
    given = all_received(consumer, at_least=2)
    bench.unload()  # the restarted process persists a state, too
    return given


def moving_and_crashing(bench: Bench) -> Observation:
    """Reset a subscription, skip on another, create a third at the end; kill the broker: the states of all three."""
    messages = filled(bench, 8)
    for subscription in ("s", "t"):
        subscribed(bench, subscription).close(timeout_s=TIMEOUT_S)
    bench.client.subscribe(bench.topic, "u", kind="Shared", initial="latest", timeout_s=TIMEOUT_S)
    bench.admin.reset_cursor(bench.topic, "s", messages[4])
    bench.admin.skip(bench.topic, "t", 3)
    bench.kill()
    subscribed(bench)
    return [remembered(bench, messages, subscription)[0] for subscription in ("s", "t", "u")]


def flushing(bench: Bench) -> Observation:
    """Acknowledge a message after one that was just persisted: whether the flush persists it, too.

    That takes a minute with shipped settings.
    """
    messages = filled(bench, 5)
    consumer = subscribed(bench)
    acknowledge_and_persist(bench, consumer, [messages[0]])
    entries = _cursor(bench).cursor_ledger_last_entry
    consumer.ack([messages[1]])
    return becomes(lambda: _cursor(bench).cursor_ledger_last_entry > entries, within_s=6)


def rolling_over(bench: Bench) -> Observation:
    """Send 8 messages: how many ledgers they are in."""
    return len({message.ledger for message in filled(bench, 8)})


def skipping_all(bench: Bench) -> Observation:
    """Skip all of 8 messages: the state."""
    messages = filled(bench, 8)
    subscribed(bench).close(timeout_s=TIMEOUT_S)
    bench.admin.skip_all(bench.topic, "s")
    return remembered(bench, messages)


def acknowledge_and_persist(bench: Bench, consumer: WireConsumer, what: Sequence[Position | PartOfBatch]) -> None:
    """Have the first acks of a subscription persisted: that happens at once, whatever the rate limit.

    An unload before that may lose some of them, on every release. Seldom a cursor opens one more ledger right after its
    first, whose only entry already has them. Only the fact that it stays so distinguishes the two.
    """
    consumer.ack(what)
    eventually(lambda: _cursor(bench).state == "Open")
    becomes(lambda: _is_persisted(bench), within_s=1)


def persisting(bench: Bench) -> Observation:
    """Acknowledge a message, and two more once that is persisted: whether they are persisted at once, too."""
    messages = filled(bench, 5)
    consumer = subscribed(bench)
    acknowledge_and_persist(bench, consumer, [messages[0]])
    entries = _cursor(bench).cursor_ledger_last_entry
    consumer.ack([messages[2]])
    consumer.ack([messages[4]])
    return becomes(lambda: _cursor(bench).cursor_ledger_last_entry == entries + 2)


def joining(bench: Bench) -> Observation:
    """One consumer receives two of four messages, and another one joins: what each receives."""
    filled(bench, 4)
    first = subscribed(bench)
    taken = _take(first, 2)
    second = subscribed(bench)
    second.flow(10)
    return taken, all_received(second, at_least=2)


def leaving(bench: Bench) -> Observation:
    """One consumer receives two of four messages, and leaves: what the other one receives in the end."""
    filled(bench, 4)
    first, second = subscribed(bench), subscribed(bench)
    _take(first, 2)
    second.flow(10)
    others = all_received(second, at_least=2)
    first.close(timeout_s=TIMEOUT_S)
    return sorted(others + all_received(second))


def nacking_one(bench: Bench) -> Observation:
    """Receive three messages, and nack the second: what is redelivered."""
    messages = filled(bench, 3)
    consumer = subscribed(bench)
    _take(consumer, 3)
    consumer.redeliver([messages[1]])
    consumer.flow(10)
    return all_received(consumer)


def trimming(acknowledged: int) -> Experiment:
    """One subscription acknowledges two full ledgers, another one this many messages: how many ledgers are deleted."""

    def experiment(bench: Bench) -> Observation:
        bench.admin.set_retention(bench.namespace, size_mb=0, time_minutes=0)
        fast, slow = subscribed(bench, "s"), subscribed(bench, "t")
        messages = filled(bench, 11)
        ledgers = {message.ledger for message in messages}
        assert len(ledgers) == 3
        slow.ack(messages[:acknowledged])
        fast.ack(messages[:10])
        becomes(lambda: len(ledgers - _ledgers(bench)) == 2)
        return len(ledgers - _ledgers(bench))

    return experiment


def resetting(bench: Bench) -> Observation:
    """Acknowledge all of 8 messages, and reset the cursor to the third: the state."""
    messages = filled(bench, 8)
    consumer = subscribed(bench)
    consumer.ack(messages)
    consumer.close(timeout_s=TIMEOUT_S)
    bench.admin.reset_cursor(bench.topic, "s", messages[2])
    return remembered(bench, messages)


def skipping(bench: Bench) -> Observation:
    """Skip three of 8 messages: the state."""
    messages = filled(bench, 8)
    subscribed(bench).close(timeout_s=TIMEOUT_S)
    bench.admin.skip(bench.topic, "s", 3)
    return remembered(bench, messages)


def position_of(outcome: object) -> Position:
    assert isinstance(outcome, Receipt)
    assert outcome.position is not None
    return outcome.position


def _ledgers(bench: Bench) -> set[int]:
    return {ledger.ledger_id for ledger in bench.admin.internal_stats(bench.topic).ledgers}


def _cursor(bench: Bench) -> CursorStats:
    return bench.admin.internal_stats(bench.topic).cursors["s"]


def _is_persisted(bench: Bench) -> bool:
    """Whether the first ack is persisted: the first entry of a cursor's ledger is the state before it."""
    cursor = _cursor(bench)
    return cursor.state == "Open" and cursor.cursor_ledger_last_entry >= 1


def _take(consumer: WireConsumer, count: int) -> list[int]:
    """The numbers of this many messages, and no further permits."""
    consumer.flow(count)
    return [_next_number(consumer) for _ in range(count)]


def _next_number(consumer: WireConsumer) -> int:
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    return delivery.sequence_id


def all_received(consumer: WireConsumer, *, at_least: int = 0) -> list[int]:
    """The numbers of the messages that a consumer receives: it waits for ``at_least``, and accepts more."""
    given = [_next_number(consumer) for _ in range(at_least)]
    while (delivery := consumer.receive(timeout_s=0.5)) is not None:
        given.append(delivery.sequence_id)
    return given


def _batch_indexes(consumer: WireConsumer) -> Iterable[int]:
    while (delivery := consumer.receive(timeout_s=0.5)) is not None:
        yield delivery.batch_index


FLUSHED_SOON = {"managedLedgerDefaultMarkDeleteRateLimit": "0.5", "managedLedgerCursorPositionFlushSeconds": "1"}
"""States are persisted at most every two seconds, and checked for a flush once a second; the rate limit applies."""
PERSISTED_EACH_TIME = {"managedLedgerDefaultMarkDeleteRateLimit": "0"}
"""Every ack is persisted."""

CURSOR_EFFECTS: dict[str, Effect] = {
    "ack-dropped": Effect(acknowledging(8, 8, 6, 1, 3), (1, [3, 6, 8]), (0, [3, 6, 8])),
    "ack-includes-previous-entry": Effect(acknowledging(8, 3, 8), (0, [3, 8]), (0, [2, 3, 7, 8])),
    "ack-on-another-subscription": Effect(acknowledging_on_two_subscriptions, [1, 1], [1, 2]),
    "mark-delete-jumps": Effect(acknowledging(8, 3, 7), (0, [3, 7]), (7, [])),
    "mark-delete-stops-at-ledger-end": Effect(acknowledging(8, 6, 1, 2, 3, 4, 5), (6, []), (5, [6])),
    "mark-delete-goes-back": Effect(acknowledging_up_to(7, 2), (7, []), (2, [])),
    "cumulative-one-too-many": Effect(acknowledging_up_to(3), (3, []), (4, [])),
    "cumulative-one-too-few": Effect(acknowledging_up_to(3), (3, []), (2, [])),
    "late-ack-lost": Effect(acknowledging(8, 7, 3, 8), (0, [3, 7, 8]), (0, [7, 8])),
    "grouped-acks-lost": Effect(acknowledging_in_one_command, (1, [3, 4]), (1, [])),
    "batch-index-ignored": Effect(acknowledging_part_of_a_batch, [1, 3, 4], []),
    "batch-index-off-by-one": Effect(acknowledging_part_of_a_batch, [1, 3, 4], [1, 2, 4]),
    "range-lost-at-ledger-boundary": Effect(recovering_cursor(8, 3, 6), (0, [3, 6]), (0, [3])),
    "last-range-not-stored": Effect(recovering_cursor(8, 3, 6), (0, [3, 6]), (0, [3])),
    "ranges-lost-on-close": Effect(recovering_cursor(8, 1, 3, 6), (1, [3, 6]), (1, [])),
    "ranges-not-recovered": Effect(recovering_cursor(8, 1, 3, 6), (1, [3, 6]), (1, [])),
    "recovery-one-ahead": Effect(recovering_cursor(8, 1, 7), (1, [7]), (2, [7])),
    "rate-limit-ignored": Effect(persisting, False, True),
    "join-redelivers-unacknowledged": Effect(joining, ([1, 2], [3, 4]), ([1, 2], [1, 2, 3, 4])),
    "leave-drops-pending-acks": Effect(leaving, [1, 2, 3, 4], [3, 4]),
    "nack-ignored": Effect(nacking_one, [2], []),
    "nack-redelivers-all": Effect(nacking_one, [2], [1, 2, 3]),
    "slowest-cursor-ignored": Effect(trimming(0), 0, 2),
    "ledger-deleted-too-soon": Effect(trimming(7), 1, 2),
    "reset-one-late": Effect(resetting, (2, []), (3, [])),
    "skip-one-too-many": Effect(skipping, (3, []), (4, [])),
    "skip-all-leaves-one": Effect(skipping_all, (8, []), (7, [])),
    "ledger-never-full": Effect(rolling_over, 2, 1),
    "close-stores-what-was-persisted": Effect(closing_with_a_later_ack, (2, []), (1, [])),
    "recovery-of-an-older-state": Effect(crashing, (1, [7]), (1, []), PERSISTED_EACH_TIME),
    "batch-acks-not-persisted": Effect(crashing_with_part_of_a_batch, [1, 3], [1, 2, 3]),
    "batch-acks-not-recovered": Effect(crashing_with_part_of_a_batch, [1, 3], [1, 2, 3]),
    "reset-not-persisted": Effect(moving_and_crashing, [4, 3, 8], [0, 3, 8]),
    "skip-not-persisted": Effect(moving_and_crashing, [4, 3, 8], [4, 0, 8]),
    "created-at-latest-not-persisted": Effect(moving_and_crashing, [4, 3, 8], [4, 3, 0]),
    "periodic-flush-skipped": Effect(flushing, True, False, FLUSHED_SOON),
}
"""For each of these defects, by its name, how its effect is observed."""
