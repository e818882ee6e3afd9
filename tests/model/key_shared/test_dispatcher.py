"""The reference of Key_Shared, step by step, where a step is easier to read than an exploration."""

from __future__ import annotations

import pytest

from model.key_shared import dispatcher
from model.key_shared.dispatcher import DispatchOutcome, KeySharedSubscription, Owners
from model.key_shared.draining_hashes import DrainingHashEntry
from model.key_shared.variants import KeysVariant

ALL_A: Owners = ((1, "A"), (2, "A"))
ONE_B: Owners = ((1, "B"), (2, "A"))


def at_rest(subscription: KeySharedSubscription) -> KeySharedSubscription:
    """The subscription after everything that can be dispatched was dispatched."""
    while subscription.awake:
        subscription, _, _ = dispatcher.choose(subscription)
        if subscription.sending is not None:
            subscription, _ = dispatcher.add(subscription)
    return subscription


def pending(subscription: KeySharedSubscription) -> dict[str, tuple[int, ...]]:
    return {consumer.name: consumer.pending for consumer in subscription.consumers}


def with_a(*hashes: int, permits: int = 10, variant: KeysVariant | None = None) -> KeySharedSubscription:
    subscription = dispatcher.new_subscription(hashes, variant=variant or KeysVariant())
    return at_rest(dispatcher.join(subscription, "A", permits=permits, owners=ALL_A))


def test_pending_messages_of_a_moved_hash_are_counted_and_none_is_dispatched() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    assert pending(subscription) == {"A": (0, 1, 2), "B": ()}
    read_and_replayed = 2
    assert subscription.draining.of(1) == DrainingHashEntry("A", pending=2, blocked=read_and_replayed)


def test_a_drained_hash_continues_at_the_other_consumer() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 0))
    assert pending(subscription)["B"] == ()
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 2))
    assert pending(subscription) == {"A": (1,), "B": (3,)}
    assert subscription.draining.cleared == 1


def test_a_disconnected_consumers_hash_continues_in_order() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.leave(subscription, "A", owners=((1, "B"), (2, "B"))))
    assert pending(subscription) == {"B": (0, 1, 2, 3)}
    assert subscription.draining.entries == ()


def test_after_the_last_consumer_leaves_unacknowledged_messages_are_read_again() -> None:
    subscription = dispatcher.acknowledge(with_a(1, 2, 1), "A", 1)
    subscription = dispatcher.leave(subscription, "A", owners=())
    assert (subscription.read, subscription.replay) == (0, ())
    subscription = at_rest(dispatcher.join(subscription, "A", permits=10, owners=ALL_A))
    assert pending(subscription) == {"A": (0, 2)}


def test_a_hash_without_an_owner_is_put_into_the_replay_queue() -> None:
    subscription = dispatcher.new_subscription((1, 2))
    subscription = at_rest(dispatcher.join(subscription, "A", permits=10, owners=((2, "A"),)))
    assert (pending(subscription), subscription.replay) == ({"A": (1,)}, (0,))
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    assert pending(subscription)["B"] == (0,)


def test_a_returned_message_of_a_draining_hash_goes_to_the_other_consumer() -> None:
    subscription = with_a(1, 2)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.request_redelivery(subscription, "A", (0, 1)))
    assert pending(subscription) == {"A": (1,), "B": (0,)}


def test_a_message_chosen_for_a_closed_consumer_is_replayed() -> None:
    subscription = dispatcher.new_subscription((1,))
    subscription = dispatcher.join(subscription, "A", permits=10, owners=ALL_A)
    subscription = dispatcher.join(subscription, "B", permits=10, owners=ALL_A)
    subscription, outcome, position = dispatcher.choose(subscription)
    assert (outcome, position) == (DispatchOutcome.CHOSEN, 0)
    subscription = dispatcher.leave(subscription, "A", owners=((1, "B"), (2, "B")))
    subscription, outcome = dispatcher.add(subscription)
    assert (outcome, subscription.replay) == (DispatchOutcome.GONE, (0,))
    assert pending(at_rest(subscription)) == {"B": (0,)}


def test_a_recently_joined_consumer_of_the_classic_implementation_gets_no_new_message() -> None:
    subscription = with_a(1, 2, 1, permits=1, variant=KeysVariant(classic=True))
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=((1, "A"), (2, "B"))))
    assert pending(subscription) == {"A": (0,), "B": ()}
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 0))
    assert pending(subscription) == {"A": (), "B": (1,)}


def test_an_impossible_step_is_one_sentence() -> None:
    subscription = with_a(1)
    with pytest.raises(ValueError, match="A is connected already"):
        dispatcher.join(subscription, "A", permits=1, owners=ALL_A)
    with pytest.raises(ValueError, match="B is not connected"):
        dispatcher.leave(subscription, "B", owners=ALL_A)
    with pytest.raises(ValueError, match="message 7 is not pending at A"):
        dispatcher.acknowledge(subscription, "A", 7)
    with pytest.raises(ValueError, match="no message is in flight"):
        dispatcher.add(subscription)
