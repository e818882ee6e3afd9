"""The first dispatches of messages and their order, and the first of many values: shared by the rules of order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.history.recorded import Kind
from conformance.pipeline.topic import NOTHING, UNKNOWN_TIME, Evidence, Flags, Ints, TopicEvents, found


def starts(topic: TopicEvents, dispatches: Ints) -> Ints:
    """When each message was dispatched, or received if no proxy saw the dispatch, in ns."""
    invoked = topic.invoked[dispatches]
    return np.where(invoked == UNKNOWN_TIME, topic.completed[dispatches], invoked)


def are_of_type(topic: TopicEvents, rows: Ints, *types: str) -> Flags:
    """Which events are of a subscription of one of these types."""
    wanted = [topic.code("subscription_type", name) for name in types]
    return np.isin(topic.codes("subscription_type")[rows], [code for code in wanted if code >= 0])


def is_undisturbed(topic: TopicEvents, subscription: int) -> bool:
    """Whether a subscription was created once and never reset, so that its messages are dispatched in order."""
    begins = topic.of(subscription, topic.rows(Kind.BEGIN))
    return len(begins) == 1 and not len(topic.of(subscription, topic.rows(Kind.SEEK)))


def first_given(topic: TopicEvents, dispatches: Ints) -> Ints:
    """For each message in order, the dispatch that was received first."""
    order = dispatches[np.lexsort((topic.completed[dispatches], topic.message[dispatches]))]
    _, first = np.unique(topic.message[order], return_index=True)
    rows: Ints = order[first]
    return rows


def given_late(
    topic: TopicEvents, dispatches: Ints, group: str, because: str, until: Callable[[int, Ints], Ints] | None = None
) -> Evidence:
    """Messages that a subscription received only after a later one of their group (a column).

    The first receipt of each counts, because the wire shows one dispatch for a whole batch; ``until``: the time up to
    which they are judged, in ns. A subscription that was reset or created more than once is not judged. Neither is a
    chunked message that is late: a consumer may have discarded its first chunks, and requested their redelivery.
    """

    def decide(topic: TopicEvents, subscription: int) -> Evidence:
        given = first_given(topic, topic.of(subscription, dispatches))
        if until is not None:
            given = given[topic.completed[given] < until(subscription, given)]
        if len(given) < 2 or not is_undisturbed(topic, subscription):
            return NOTHING
        return _overtaken(topic, given, topic.codes(group)[given], because)

    return topic.over_own_subscriptions(decide)


def _overtaken(topic: TopicEvents, given: Ints, group: Ints, because: str) -> Evidence:
    order = np.argsort(group, kind="stable")
    given, group = given[order], group[order]
    times = topic.completed[given]
    same = group[1:] == group[:-1]
    earliest = earliest_from_here(group, times)
    is_late = same & (earliest[1:] < times[:-1]) & ~topic.present("chunk_uuid")[given[:-1]]

    def rows(bad: Ints) -> tuple[Ints, Ints]:
        return given[earliest_after(earliest, times, bad + 1)], given[bad]

    return found(int(np.sum(same)), np.flatnonzero(is_late), because, rows)


def earliest_from_here(group: Ints, times: Ints) -> Ints:
    """In rows sorted by group: the earliest time of each row and the later ones of its group."""
    values, rank = np.unique(times, return_inverse=True)
    ranked = np.minimum.accumulate((group * len(values) + rank)[::-1])[::-1]
    return values[ranked - group * len(values)]


def first_at_least(values: Ints, bounds: Ints) -> Ints:
    """For each bound, the index of the first value that is at least as large; their number without one.

    So it is also the first index at which the maximum so far is that bound.
    """
    indices: Ints = np.searchsorted(np.maximum.accumulate(values), bounds, side="left")
    return indices


def earliest_after(suffix_minima: Ints, values: Ints, starts: Ints) -> Ints:
    """For each start, the index of the first of the least values from there on; ``suffix_minima``: these values."""
    least = np.flatnonzero(values == suffix_minima)
    return least[np.searchsorted(least, starts)]
