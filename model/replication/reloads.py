"""What a cluster stored before and after it reloaded the topic, as far as the messages in its log show it.

No outcome contains the position at which a topic was reloaded. A message that was published later is after it in the
log, and one that the cluster had confirmed by then is before it.
"""

from __future__ import annotations

from model.replication.logs import Log
from model.replication.tracked import ReplicatedTopic

Published = frozenset[str]
"""The messages that were published anywhere when a topic was reloaded."""


def may_be_older(log: Log, index: int, had: Published) -> bool:
    """Whether an entry may be older than a reload: neither it nor a message before it was published later."""
    return had.issuperset(one.message for one in log.entries[: index + 1] if one.message is not None)


def may_be_newer(topic: ReplicatedTopic, log: Log, index: int, had: Published) -> bool:
    """Whether an entry may be newer than a reload: no message that the cluster had confirmed is after it."""
    confirmed = had.intersection(topic.published.get(log.cluster, ()))
    return confirmed.isdisjoint(one.message for one in log.entries[index + 1 :] if one.message is not None)


def is_older_than_load(topic: ReplicatedTopic, log: Log, index: int) -> bool:
    """Whether an entry may be older than the last reload of its cluster."""
    return any(may_be_older(log, index, had) for had in topic.reloaded.get(log.cluster, ())[-1:])


def may_be_at_load(topic: ReplicatedTopic, log: Log, index: int) -> bool:
    """Whether an entry may have been stored during a reload of its cluster."""
    return any(
        may_be_older(log, index, had) and may_be_newer(topic, log, index, had)
        for had in topic.reloaded.get(log.cluster, ())
    )


def may_be_stored_again(topic: ReplicatedTopic, log: Log, message: str) -> bool:
    """Whether each further copy of a message has its own reload, after the first copy and before the last."""
    copies = [index for index, entry in enumerate(log.entries) if entry.message == message]
    between = [
        had
        for had in topic.reloaded.get(log.cluster, ())
        if may_be_older(log, copies[0], had) and may_be_newer(topic, log, copies[-1], had)
    ]
    return len(copies) - 1 <= len(between)
