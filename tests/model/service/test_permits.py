"""SERVE-13: nothing is dispatched without a permit, and the deviations from that."""

from __future__ import annotations

import pytest

from model.events import (
    Created,
    Delivery,
    Done,
    DueReceived,
    Opened,
    ReceivedMessages,
    Sent,
    Stored,
    Subscribed,
    Unknown,
)
from model.example.state import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send
from model.service.unexpected import BeyondPermits
from model.subscription_operations import CreateSubscription, Receive, ReceiveDue, Subscribe
from model.vocabulary import Entry, Message, SubscriptionType
from tests.verdicts import Happened, Verdict, judged

SINGLE = "single-consumer-dispatch-counts-entries"
KEY_SHARED = "key-shared-dispatch-counts-entries"
AVERAGE = "dispatch-by-average-batch-size"
BY_ENTRIES = BeyondPermits("c", -2, 1, "t0")
BEYOND_ENTRIES = BeyondPermits("c", -2, 0, "t0")


def after(sizes: tuple[int, ...], kind: SubscriptionType, sent: BeyondPermits | None, *known: str) -> Verdict:
    """A consumer receives one message, and was sent more."""
    numbers = iter(range(1, 100))
    entries = [Entry(tuple(Message(n, f"b{n}") for n in [next(numbers) for _ in range(size)])) for size in sizes]
    steps: list[Happened] = [
        (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
        (OpenProducer("p", "t0", "p"), Opened(-1)),
        (CreateSubscription("t0", "s"), Done()),
        (Send("p", tuple(entries)), Sent(tuple(Stored(Position(1, n)) for n in range(len(sizes))))),
        (Subscribe("c", "t0", "s", kind), Subscribed()),
    ]
    before = judged(*steps, known=known)
    assert isinstance(before, Allowed), before
    batch = sizes[0] if sizes[0] > 1 else 0
    got = ReceivedMessages(
        tuple(Delivery(Position(1, 0), n if batch else -1, batch, f"b{n + 1}", 0) for n in range(sizes[0]))
    )
    return judge(before.state, Receive("c", 1), got, unexpected=() if sent is None else (sent,))


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_an_entry_without_a_permit_breaks_the_rule(kind: SubscriptionType) -> None:
    allowed = after((2, 2, 2), kind, None)
    assert isinstance(allowed, Allowed)
    assert "SERVE-13" in allowed.exercised
    for sent in (BY_ENTRIES, BEYOND_ENTRIES):
        broken = after((2, 2, 2), kind, sent)
        assert isinstance(broken, Broken)
        assert broken.rule == "SERVE-13"


def is_explained(sizes: tuple[int, ...], kind: SubscriptionType, sent: BeyondPermits, name: str) -> bool:
    found = after(sizes, kind, sent, name)
    assert isinstance(found, Broken) or isinstance(found.state, Example)
    return isinstance(found, Allowed) and found.deviations == (name,)


def test_permits_that_count_entries_explain_no_more_entries() -> None:
    alike = (2, 2, 2)
    assert is_explained(alike, "Exclusive", BY_ENTRIES, SINGLE)
    assert is_explained(alike, "Failover", BY_ENTRIES, SINGLE)
    assert not is_explained(alike, "Failover", BEYOND_ENTRIES, SINGLE)
    assert not is_explained((1, 1, 1), "Failover", BY_ENTRIES, SINGLE)
    assert not is_explained(alike, "Shared", BY_ENTRIES, SINGLE)
    assert is_explained(alike, "Key_Shared", BY_ENTRIES, KEY_SHARED)
    assert not is_explained(alike, "Key_Shared", BEYOND_ENTRIES, KEY_SHARED)
    assert not is_explained((1, 1, 1), "Key_Shared", BY_ENTRIES, KEY_SHARED)
    assert not is_explained(alike, "Shared", BY_ENTRIES, KEY_SHARED)


def test_the_average_explains_nothing_where_all_batches_are_alike() -> None:
    assert is_explained((3, 2, 1), "Shared", BY_ENTRIES, AVERAGE)
    assert not is_explained((3, 3, 3), "Shared", BY_ENTRIES, AVERAGE)
    assert not is_explained((3, 2, 1), "Exclusive", BY_ENTRIES, AVERAGE)
    assert not is_explained((3, 2, 1), "Key_Shared", BY_ENTRIES, AVERAGE)
    assert not is_explained((3, 2, 1), "Shared", BEYOND_ENTRIES, AVERAGE)


@pytest.mark.parametrize(("size", "deviations"), [(2, (SINGLE,)), (1, None)])
def test_batches_that_are_sent_in_the_same_step_count_too(size: int, deviations: tuple[str, ...] | None) -> None:
    before = judged(
        (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
        (OpenProducer("p", "t0", "p"), Opened(-1)),
        (Subscribe("c", "t0", "s", "Exclusive"), Subscribed()),
        (Receive("c", 3), ReceivedMessages(())),
        known=(SINGLE,),
    )
    assert isinstance(before, Allowed)
    entries = tuple(Entry(tuple(Message(9 * n + m, f"b{n}{m}") for m in range(size))) for n in range(1, 4))
    sent = Sent(tuple(Stored(Position(1, n)) for n in range(3)))
    found = judge(before.state, Send("p", entries), sent, unexpected=(BeyondPermits("c", -1, 1, "t0"),))
    assert (found.deviations if isinstance(found, Allowed) else None) == deviations


def test_the_type_of_a_subscription_is_known_although_the_log_is_not() -> None:
    """Seen on 2.11.0: a send was not answered, so nobody follows the consumers any more."""
    before = judged(
        (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
        (OpenProducer("p", "t0", "p"), Opened(-1)),
        (Subscribe("c", "t0", "s", "Failover"), Subscribed()),
        (Send("p", (Entry((Message(1, "b1"), Message(2, "b2"))),)), Sent((Unknown("cut"),))),
        (ReceiveDue("t0", "s"), DueReceived(())),
        known=(SINGLE,),
    )
    assert isinstance(before, Allowed)
    assert not before.state.consumption.consumers
    found = judge(before.state, Receive("c", 1), ReceivedMessages(()), unexpected=(BY_ENTRIES,))
    assert isinstance(found, Allowed)
    assert found.deviations == (SINGLE,)
