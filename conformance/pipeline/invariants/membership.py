"""The consumers of a subscription: while none joins or leaves, its active consumer and the consumer of a key stay.

Clients record a join when they subscribe, and not when they reconnect. So a consumer that left, or may have left
because of a fault, is *uncertain* until it subscribes or a message is dispatched to it.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import Kind
from conformance.pipeline.invariants.key_shared import of_keys
from conformance.pipeline.invariants.liveness import latest_end
from conformance.pipeline.invariants.order import are_of_type, starts
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Evidence, Ints, TopicEvents, found

ORDERED = ("Exclusive", "Failover")


def one_active_consumer(topic: TopicEvents) -> Evidence:
    """SERVE-05: an Exclusive or Failover subscription has one active consumer, until a consumer joins or leaves."""
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    dispatches = dispatches[are_of_type(topic, dispatches, *ORDERED)]
    because = "messages were dispatched to two consumers of an ordered subscription, though none joined or left"
    return _stays(topic, dispatches, np.zeros(len(dispatches), dtype=np.int64), because)


def keys_stay(topic: TopicEvents) -> Evidence:
    """KEY-03: a key stays with its consumer, until a consumer joins or leaves."""
    dispatches = of_keys(topic)
    because = "a key moved to another consumer, though none joined or left"
    return _stays(topic, dispatches, topic.codes("key")[dispatches], because)


def _stays(topic: TopicEvents, dispatches: Ints, group: Ints, because: str) -> Evidence:
    """Whether the dispatches of each group are to one consumer while the consumers of its subscription stay the same.

    Only dispatches that a proxy saw are judged. Each may have been sent ``on_its_way_ns`` earlier.
    """
    is_seen = topic.invoked[dispatches] != UNKNOWN_TIME
    dispatches, group = dispatches[is_seen], group[is_seen]
    of_subscription = topic.codes("subscription")[dispatches]

    def decide(topic: TopicEvents, subscription: int) -> Evidence:
        own = of_subscription == subscription
        return _same_consumer(topic, subscription, dispatches[own], group[own], because)

    return topic.over_own_subscriptions(decide)


def _same_consumer(topic: TopicEvents, subscription: int, rows: Ints, group: Ints, because: str) -> Evidence:
    joins = topic.of(subscription, topic.rows(Kind.SUBSCRIBE))
    consumer = topic.codes("consumer")
    if len(rows) < 2 or not len(joins):  # the consumers of a partition join its whole topic
        return NOTHING
    order = np.lexsort((topic.invoked[rows], group))
    rows, group = rows[order], group[order]
    is_pair = group[1:] == group[:-1]
    one, other = rows[:-1][is_pair], rows[1:][is_pair]
    begun, over = _changes(topic, subscription, joins).T
    earliest_ns = topic.invoked[one] - topic.setting.on_its_way_ns
    is_quiet = latest_end(begun, over, topic.invoked[other]) < earliest_ns
    one, other = one[is_quiet], other[is_quiet]
    bad = np.flatnonzero(consumer[one] != consumer[other])
    return found(len(one), bad, because, lambda index: (one[index], other[index]))


def _changes(topic: TopicEvents, subscription: int, joins: Ints) -> Ints:
    """When the consumers of a subscription may change: a row for each span, its begin and end in ns."""
    given = topic.of(subscription, topic.rows(Kind.DISPATCH))
    leaves = topic.of(subscription, topic.rows(Kind.UNSUBSCRIBE))
    consumer, on_its_way_ns = topic.codes("consumer"), topic.setting.on_its_way_ns
    spans = [np.column_stack([topic.invoked[joins], topic.completed[joins]])]
    for one in np.unique(consumer[joins]):
        joined, left = topic.completed[joins[consumer[joins] == one]], leaves[consumer[leaves] == one]
        begun = np.concatenate([topic.invoked[left], topic.fault_spans[:, 0]])
        over = np.concatenate([topic.completed[left], topic.fault_spans[:, 1]])
        if not len(begun):
            continue
        shown = np.sort(np.concatenate([joined, starts(topic, given[consumer[given] == one]) - on_its_way_ns]))
        until = np.append(shown, NEVER)[np.searchsorted(shown, over, side="right")]
        spans.append(np.column_stack([begun, until]))
    changes: Ints = np.concatenate(spans)
    return changes
