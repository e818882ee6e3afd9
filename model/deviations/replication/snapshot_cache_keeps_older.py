from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Evicted, Findings, NotPublished

ENTRY = Deviation(
    name="snapshot-cache-keeps-older",
    rule="REPL-11",
    also=("REPL-12",),
    statement="A full snapshot cache does not evict the oldest snapshot, but the one that is closest to its neighbors. An update may have a snapshot that is older than all in a cache that evicts the oldest, or older than the last one that was read before mark-delete.",
    cause="ReplicatedSubscriptionSnapshotCache.removeSingleEntryWithMinimumTotalDistanceToPreviousAndNext, since apache/pulsar#25044: other clusters follow consumers whose mark-delete seldom moves (REPL-19). It is an improvement, and still holds no more than the configured number. 5.0.0-M1 and 5.0.1 have the same class.",
    upstream=("apache/pulsar#25044",),
    side="broker",
    releases=(">=4.2,<=5.0.1",),
    seen=("4.2.4", "5.0.0-M1", "5.0.1"),
    gone=("4.0.8", "3.3.6"),
    has_history=False,
    shadow=Shadow(
        name="test_updates_have_no_more_snapshots_than_the_cache_holds",
        by="small history",
        statement="The updates have more of the snapshots that were read before than the cache holds. Or the last one before mark-delete is not published although the cache held all.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, _is_explained)


def _is_explained(found: Findings, about: object) -> bool:
    match about:
        case Evicted():
            return True
        case NotPublished() as one:
            return _was_full(found, one)
        case _:
            return False


def _was_full(found: Findings, one: NotPublished) -> bool:
    """Whether the cache was full since the update before the snapshot: the next one chose from what was cached then."""
    log, reads = found.logs[one.cluster], found.topic.reads[one.subscription, one.cluster]
    before = (update for at, update in log.updates(one.subscription) if at < one.index)
    published = [taken.local for update in before for _, taken in log.taken_with(update.positions)[-1:]]
    kept_from = max(published, default=min(ahead.first for ahead in reads))
    return sum(taken.local >= kept_from for _, taken in log.taken) > found.topic.made.cached
