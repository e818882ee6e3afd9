"""Document 004 over histories: one consumer at a time for each key, as intervals, and its messages in order.

When a message is surely outstanding, :mod:`~conformance.pipeline.invariants.outstanding` says.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.history.recorded import Kind
from conformance.pipeline.invariants.order import are_of_type, given_late
from conformance.pipeline.invariants.outstanding import at_one_consumer
from conformance.pipeline.topic import NEVER, Found, Ints, Topic

KEY_SHARED = "Key_Shared"


def one_consumer_at_a_time(topic: Topic) -> Found:
    """KEY-01: messages of one key are outstanding at one consumer at a time."""
    because = "a message was sent to a consumer while one of the same key was outstanding at another"
    dispatches = _of_keys(topic)
    return at_one_consumer(topic, dispatches, topic.codes("key")[dispatches], because)


def keys_in_order(topic: Topic) -> Found:
    """KEY-02: a key's messages are given in its order, as long as nothing of it was asked for again.

    What counts is when each message was given for the first time, whoever got it.
    """
    because = "a message was given to a consumer only after a later one of the same key"
    return given_late(topic, _of_keys(topic), "key", because, partial(_asked_again, topic))


def _asked_again(topic: Topic, subscription: int, given: Ints) -> Ints:
    """From when each message's key may come in any order: something of it, or everything, was asked for again."""
    key = topic.codes("key")
    key_of = np.full(topic.messages, -1)
    key_of[topic.message[given]] = key[given]
    nacks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.NACK)))
    by_key = np.full(int(key.max()) + 2, NEVER)  # the last one is for messages that were never given
    np.minimum.at(by_key, key_of[topic.message[nacks]], topic.invoked[nacks])
    everything = topic.invoked[topic.of(subscription, topic.rows(Kind.REDELIVER))].min(initial=NEVER)
    until: Ints = np.minimum(by_key[key[given]], everything)
    return until


def _of_keys(topic: Topic) -> Ints:
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    return dispatches[(topic.codes("key")[dispatches] >= 0) & are_of_type(topic, dispatches, KEY_SHARED)]
