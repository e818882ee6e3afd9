"""The reference of Key_Shared, step by step, where a step is easier to read than an exploration."""

from __future__ import annotations

import pytest

from model.key_shared import dispatcher
from model.key_shared.dispatcher import Outcome, Owners, Subscription
from model.key_shared.draining import DrainingHash
from model.key_shared.variants import KeysVariant

ALL_A: Owners = ((1, "A"), (2, "A"))
ONE_B: Owners = ((1, "B"), (2, "A"))


def at_rest(subscription: Subscription) -> Subscription:
    """The subscription after everything was sent that can be."""
    while subscription.awake:
        subscription, _, _ = dispatcher.choose(subscription)
        if subscription.sending is not None:
            subscription, _ = dispatcher.add(subscription)
    return subscription


def pending(subscription: Subscription) -> dict[str, tuple[int, ...]]:
    return {consumer.name: consumer.pending for consumer in subscription.consumers}


def with_a(*hashes: int, permits: int = 10, variant: KeysVariant | None = None) -> Subscription:
    subscription = dispatcher.new_subscription(hashes, variant=variant or KeysVariant())
    return at_rest(dispatcher.join(subscription, "A", permits=permits, owners=ALL_A))


def test_what_is_pending_of_a_hash_that_moves_is_counted_and_nothing_of_it_is_sent() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    assert pending(subscription) == {"A": (0, 1, 2), "B": ()}
    read_and_replayed = 2
    assert subscription.draining.of(1) == DrainingHash("A", pending=2, blocked=read_and_replayed)


def test_with_its_last_message_acknowledged_the_hash_goes_on_at_the_other_consumer() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 0))
    assert pending(subscription)["B"] == ()
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 2))
    assert pending(subscription) == {"A": (1,), "B": (3,)}
    assert subscription.draining.cleared == 1


def test_when_its_consumer_disconnects_all_of_the_hash_goes_on_in_order() -> None:
    subscription = with_a(1, 2, 1, 1, permits=3)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.leave(subscription, "A", owners=((1, "B"), (2, "B"))))
    assert pending(subscription) == {"B": (0, 1, 2, 3)}
    assert subscription.draining.entries == ()


def test_after_the_last_consumer_everything_unacknowledged_is_read_again() -> None:
    subscription = dispatcher.acknowledge(with_a(1, 2, 1), "A", 1)
    subscription = dispatcher.leave(subscription, "A", owners=())
    assert (subscription.read, subscription.replay) == (0, ())
    subscription = at_rest(dispatcher.join(subscription, "A", permits=10, owners=ALL_A))
    assert pending(subscription) == {"A": (0, 2)}


def test_a_hash_that_nobody_has_is_put_aside_until_somebody_has_it() -> None:
    subscription = dispatcher.new_subscription((1, 2))
    subscription = at_rest(dispatcher.join(subscription, "A", permits=10, owners=((2, "A"),)))
    assert (pending(subscription), subscription.replay) == ({"A": (1,)}, (0,))
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    assert pending(subscription)["B"] == (0,)


def test_what_is_given_back_drains_and_goes_to_the_other_consumer() -> None:
    subscription = with_a(1, 2)
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=ONE_B))
    subscription = at_rest(dispatcher.give_back(subscription, "A", (0, 1)))
    assert pending(subscription) == {"A": (1,), "B": (0,)}


def test_a_message_on_its_way_to_a_consumer_that_is_gone_is_put_aside() -> None:
    subscription = dispatcher.new_subscription((1,))
    subscription = dispatcher.join(subscription, "A", permits=10, owners=ALL_A)
    subscription = dispatcher.join(subscription, "B", permits=10, owners=ALL_A)
    subscription, outcome, position = dispatcher.choose(subscription)
    assert (outcome, position) == (Outcome.CHOSEN, 0)
    subscription = dispatcher.leave(subscription, "A", owners=((1, "B"), (2, "B")))
    subscription, outcome = dispatcher.add(subscription)
    assert (outcome, subscription.replay) == (Outcome.GONE, (0,))
    assert pending(at_rest(subscription)) == {"B": (0,)}


def test_in_the_classic_implementation_one_that_joined_recently_gets_nothing_new_until_all_is_acknowledged() -> None:
    subscription = with_a(1, 2, 1, permits=1, variant=KeysVariant(classic=True))
    subscription = at_rest(dispatcher.join(subscription, "B", permits=10, owners=((1, "A"), (2, "B"))))
    assert pending(subscription) == {"A": (0,), "B": ()}
    subscription = at_rest(dispatcher.acknowledge(subscription, "A", 0))
    assert pending(subscription) == {"A": (), "B": (1,)}


def test_what_cannot_be_is_said_in_one_sentence() -> None:
    subscription = with_a(1)
    with pytest.raises(ValueError, match="A is connected already"):
        dispatcher.join(subscription, "A", permits=1, owners=ALL_A)
    with pytest.raises(ValueError, match="B is not connected"):
        dispatcher.leave(subscription, "B", owners=ALL_A)
    with pytest.raises(ValueError, match="message 7 is not pending at A"):
        dispatcher.acknowledge(subscription, "A", 7)
    with pytest.raises(ValueError, match="nothing is on its way"):
        dispatcher.add(subscription)
