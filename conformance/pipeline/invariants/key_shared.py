"""Document 004 over histories: the messages of a key are pending at one consumer at a time, and dispatched in order.

:mod:`~conformance.pipeline.invariants.pending_acks` has the intervals.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.history.recorded import Kind
from conformance.pipeline.invariants.order import are_of_type, given_late
from conformance.pipeline.invariants.pending_acks import at_one_consumer
from conformance.pipeline.topic import NEVER, Evidence, Ints, TopicEvents

KEY_SHARED = "Key_Shared"


def one_consumer_at_a_time(topic: TopicEvents) -> Evidence:
    """KEY-01: messages of one key are pending at one consumer at a time."""
    because = "a message was dispatched to a consumer while one of the same key was pending at another"
    dispatches = of_keys(topic)
    return at_one_consumer(topic, dispatches, topic.codes("key")[dispatches], because)


def keys_in_order(topic: TopicEvents) -> Evidence:
    """KEY-02: a key's messages are dispatched in order, until redelivery of one is requested.

    The first dispatch of each message counts, to any consumer. Delayed messages have no place in the order.
    """
    because = "a message was delivered only after a later one of the same key"
    dispatches = of_keys(topic)
    in_order = dispatches[topic.numbers("delayed", 0)[dispatches] == 0]
    return given_late(topic, in_order, "key", because, partial(_redelivery_requested, topic))


def _redelivery_requested(topic: TopicEvents, subscription: int, given: Ints) -> Ints:
    """From when the key of each message may be out of order: the first redelivery request for it, or for everything."""
    key = topic.codes("key")
    key_of = np.full(topic.messages, -1)
    key_of[topic.message[given]] = key[given]
    nacks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.NACK)))
    by_key = np.full(int(key.max()) + 2, NEVER)  # the last one is for messages without a dispatch
    np.minimum.at(by_key, key_of[topic.message[nacks]], topic.invoked[nacks])
    everything = topic.invoked[topic.of(subscription, topic.rows(Kind.REDELIVER))].min(initial=NEVER)
    until: Ints = np.minimum(by_key[key[given]], everything)
    return until


def of_keys(topic: TopicEvents) -> Ints:
    """The dispatches of messages with keys to Key_Shared subscriptions."""
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    return dispatches[(topic.codes("key")[dispatches] >= 0) & are_of_type(topic, dispatches, KEY_SHARED)]
