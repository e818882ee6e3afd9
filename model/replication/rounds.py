"""The two rounds of a snapshot in the logs: which clusters answered the second request, and which only the first.

A response does not contain its round. Its position in its cluster's log does: a response to the second request has the
position of that request there, or a later one. A cluster may answer the first request twice, because a replicator sent
the response again, or because the request came, or was read, again; that response has the same position or a later one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from model.cluster_events import SnapshotTaken
from model.log import Position
from model.replication.logs import Answer, Log, Logs, SnapshotSeen

MOST_ARE_SLOW: Final = 0.9
"""The part of them that must be too slow."""
FEWEST_SLOW: Final = 3
"""The fewest snapshots that show that replication is too slow."""


@dataclass(frozen=True, slots=True)
class Complete:
    """A completed snapshot in its cluster's log: its result, and the responses before that."""

    log: Log
    seen: SnapshotSeen
    taken: SnapshotTaken
    answers: tuple[Answer, ...]

    @property
    def name(self) -> str:
        return self.seen.name

    @property
    def cluster(self) -> str:
        return self.log.cluster

    @property
    def rounds(self) -> int:
        return len(self.seen.requests)


def complete(logs: Logs) -> Iterator[Complete]:
    """The completed snapshots."""
    for log in logs.values():
        for snapshot in log.snapshots:
            if snapshot.taken_index is not None and snapshot.taken is not None:
                before = tuple(answer for answer in snapshot.answers if answer.index < snapshot.taken_index)
                yield Complete(log, snapshot, snapshot.taken, before)


def answered_again(logs: Logs, one: Complete) -> set[str]:
    """The clusters that answered the second request."""
    return {answer.cluster for answer in one.answers if not _is_of_first_round(logs, one.seen, answer, one.answers)}


def repeated(logs: Logs, one: Complete) -> set[str]:
    """The clusters whose responses to the first request are several, anywhere in the log.

    Each cluster has its own replicator, so a response before the second request may be handled after that.
    """
    if one.rounds < 2:
        return set()
    of_first = (answer.cluster for answer in one.answers if _is_of_first_round(logs, one.seen, answer, one.answers))
    return {cluster for cluster, count in Counter(of_first).items() if count > 1}


def _is_of_first_round(logs: Logs, snapshot: SnapshotSeen, answer: Answer, answers: Sequence[Answer]) -> bool:
    """Whether a cluster had only the first request when it wrote a response.

    Its log may have been read before it wrote that. A response that the cluster gave before the second request is one
    to the first, and so is one with the same position.
    """
    there = logs.get(answer.cluster)
    if there is not None and (snapshot.name, answer.position) in there.responded:
        requests = there.requested.get(snapshot.name, ())
        # A request that was sent again has the same publish time.
        second = [one.position for one in requests if one.published_ms > requests[0].published_ms]
        return not second or answer.position < second[0]
    first = {(one.cluster, one.position) for one in answers if one.index < snapshot.requests[1]}
    return (answer.cluster, answer.position) in first


def is_too_early(logs: Logs, one: Complete) -> bool:
    """Whether a response of the last round is after a complete snapshot's local position.

    This is not judged if a first-round response was repeated, which may be after the last request.
    """
    return not repeated(logs, one) and any(at > one.taken.local for at in last_round(one))


def are_too_slow(log: Log, others: Set[str], *, timeout_ms: float) -> bool:
    """Whether replication takes too long for a snapshot: its rounds would not end within the timeout.

    Snapshots without a result that all other clusters answered once show that: nine of ten in the later half of the
    most that there were in a row, without the last eighth. Once nothing more is published, replication recovers, and
    later ones have a result again.
    """
    in_a_row: list[list[float]] = [[]]
    for snapshot in log.snapshots:
        if snapshot.taken_index is not None:
            in_a_row.append([])
        elif {answer.cluster for answer in snapshot.answers} >= others:
            in_a_row[-1].append(_took_ms(log, snapshot, rounds=2 if len(others) > 1 else 1))
    took = max(in_a_row, key=len)
    later = took[len(took) // 2 : len(took) - len(took) // 8]
    slow = sum(one > timeout_ms for one in later)
    return slow >= max(FEWEST_SLOW, MOST_ARE_SLOW * len(later))


def _took_ms(log: Log, snapshot: SnapshotSeen, *, rounds: int) -> float:
    """How long so many rounds of a snapshot without a result took, or would have taken, if not all of them were made.

    A response arrived after the cluster's own entries before it.
    """
    by_cluster: dict[str, list[int]] = defaultdict(list)
    for answer in snapshot.answers:
        by_cluster[answer.cluster].append(answer.index)
    made = min(rounds, len(snapshot.requests), *map(len, by_cluster.values()))
    last = max(indexes[made - 1] for indexes in by_cluster.values())
    arrived_ms = max(entry.published_ms for entry in log.entries[:last] if entry.origin == log.cluster)
    return rounds / made * (arrived_ms - log.entries[snapshot.requests[0]].published_ms)


def last_round(one: Complete) -> set[Position]:
    """The positions of each cluster's first response to the last request."""
    first: dict[str, Position] = {}
    for answer in one.answers:
        if answer.index > one.seen.requests[-1]:
            first.setdefault(answer.cluster, one.log.entries[answer.index].position)
    return set(first.values())
