"""The two rounds of a snapshot, as they are seen in logs: who answered the second request, and who only the first.

An answer carries no round. One to the second request tells a later position than the one before it, for its cluster has
written at least that answer since; one that a replicator sent again tells the same. What it means is judged elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from model.cluster_events import SnapshotTaken, SubscriptionUpdated
from model.deviations.replication import FIRST_ROUND_RESPONSE_COUNTS_TWICE, SNAPSHOT_NOT_AT_HIGHEST_RESPONSE
from model.log import Position
from model.replication.logs import Answer, Log, Logs, SnapshotSeen


def complete(logs: Logs) -> Iterator[tuple[Log, SnapshotSeen, SnapshotTaken, tuple[Answer, ...]]]:
    """The snapshots that were completed, each with its result and the answers that its cluster had by then."""
    for log in logs.values():
        for snapshot in log.snapshots:
            if snapshot.taken_index is not None and snapshot.taken is not None:
                before = tuple(answer for answer in snapshot.answers if answer.index < snapshot.taken_index)
                yield log, snapshot, snapshot.taken, before


def answered_again(snapshot: SnapshotSeen, answers: Sequence[Answer]) -> set[str]:
    """The clusters whose answer to the second request has come: it tells another position than those to the first."""
    first = _first_answers(snapshot, answers)
    return {one.cluster for one in answers if (one.cluster, one.position) not in first}


def repeated(snapshot: SnapshotSeen, answers: Sequence[Answer]) -> set[str]:
    """The clusters whose answer to the first request has come once more.

    Wherever that stands: each cluster's answers are handled by a replicator of its own, and one that stands before the
    second request may be handled when that has been decided on.
    """
    first, times = _first_answers(snapshot, answers), Counter((one.cluster, one.position) for one in answers)
    return {cluster for (cluster, position), count in times.items() if count > 1 and (cluster, position) in first}


def is_too_early(log: Log, snapshot: SnapshotSeen, answers: Sequence[Answer]) -> bool:
    """Whether an answer that the last round waited for stands behind a complete snapshot's own position.

    Not said where one of the first round came again: that is another matter.
    """
    if snapshot.taken is None or (len(snapshot.requests) > 1 and repeated(snapshot, answers)):
        return False
    last_round: dict[str, int] = {}
    for answer in answers:
        if answer.index > snapshot.requests[-1]:
            last_round.setdefault(answer.cluster, answer.index)
    return any(log.entries[index].position > snapshot.taken.local for index in last_round.values())


def _first_answers(snapshot: SnapshotSeen, answers: Sequence[Answer]) -> set[tuple[str, Position]]:
    return {(one.cluster, one.position) for one in answers if one.index < snapshot.requests[1]}


def misled(logs: Logs) -> dict[str, dict[str, str]]:
    """By subscription, the messages that a snapshot covers too early, each with the deviation behind it.

    An update with that snapshot acknowledges them where they are, although the consumer may not have received them.
    """
    wrong: dict[frozenset[tuple[str, Position]], dict[str, str]] = {}
    for log, snapshot, taken, answers in complete(logs):
        told = frozenset(taken.positions.items())
        if len(snapshot.requests) > 1 and repeated(snapshot, answers) - answered_again(snapshot, answers):
            wrong[told] = dict.fromkeys(_covered_too_early(logs, log, taken), FIRST_ROUND_RESPONSE_COUNTS_TWICE)
        elif is_too_early(log, snapshot, answers):
            wrong[told] = dict.fromkeys(_covered_too_early(logs, log, taken), SNAPSHOT_NOT_AT_HIGHEST_RESPONSE)
    markers = (entry.marker for log in logs.values() for entry in log.entries)
    updates = (marker for marker in markers if isinstance(marker, SubscriptionUpdated))
    told_of = ((update.subscription, frozenset(update.positions.items())) for update in updates)
    by_subscription: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for subscription, told in told_of:
        by_subscription[subscription].update(wrong.get(told, {}))
    return by_subscription


def _covered_too_early(logs: Logs, log: Log, taken: SnapshotTaken) -> set[str]:
    """The messages up to a snapshot's position in another cluster that are not up to its position here."""
    here = {entry.message for entry in log.entries if entry.position <= taken.local}
    there = (
        entry.message
        for cluster, position in taken.positions.items()
        if cluster in logs
        for entry in logs[cluster].entries
        if entry.position <= position
    )
    return {message for message in there if message is not None and message not in here}
