"""How a snapshot is taken, in one or two rounds, and how a subscription caches the snapshots that it reads.

The positions of other clusters come from the *first* round. The local position is that of the last response of the
*last* round. With one other cluster one round suffices: every entry in its log was in ours before, or arrives before
its response. With several it does not: an entry of a third cluster may be in the responding cluster's log, and not yet
in ours. The second round's responses arrive after such entries (REPL-07). A variant explores a single round.

A response counts for the round of its request. The document does not say so, and releases do not do it. There, a
first-round response that arrives twice, as after a cut link, counts for the second round.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from model.replication.entries import Positions, Response, Snapshot
from model.replication.variants import DOCUMENT, ReplicationVariant
from model.rules.catalogue import carries


class Builder(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A snapshot in progress: the position of its first request, its round, and the clusters without a response.

    ``last``: the position of the last response of this round, -1 if there is none.
    """

    name: str
    began: int
    remotes: tuple[str, ...]
    missing: tuple[str, ...]
    round: int = 1
    positions: Positions = ()
    last: int = -1


def new_builder(name: str, *, began: int, remotes: tuple[str, ...]) -> Builder:
    """A new snapshot, with a request at the position ``began``."""
    return Builder(name=name, began=began, remotes=remotes, missing=remotes)


@carries("REPL-06", "REPL-07", "REPL-09", "REPL-14", "REPL-16")
def answered(
    builder: Builder, cluster: str, response: Response, *, stored_at: int, variant: ReplicationVariant = DOCUMENT
) -> Builder | Snapshot:
    """A cluster's response is stored here at ``stored_at``. Returns the builder, or the complete snapshot.

    The first response of a cluster has its position; later ones do not change it (REPL-06). After all responses of
    several clusters, a second round begins (REPL-07). The local position is that of the last response in the log
    (REPL-09), not of the last one handled: the replicator of each cluster handles its own. Responses 6 and 7, the
    second stored at 10, give 10 - 6 - 7 (REPL-16).
    """
    if response.round != builder.round and not variant.first_round_response_counts_twice:
        return builder
    known = dict(builder.positions)
    if cluster not in known or variant.latest_answer_counts:
        known[cluster] = response.position
    if cluster in builder.missing:
        last = stored_at if variant.snapshot_not_at_highest_response else max(builder.last, stored_at)
        missing = tuple(one for one in builder.missing if one != cluster)
        builder = replace(builder, missing=missing, last=last)
    builder = replace(builder, positions=tuple(sorted(known.items())))
    if builder.missing:
        return builder
    if builder.round < rounds(builder, variant=variant):
        return replace(builder, round=builder.round + 1, missing=builder.remotes, last=-1)
    local = builder.began if variant.local_too_early else builder.last
    return Snapshot(builder.name, local, builder.positions)


def rounds(builder: Builder, *, variant: ReplicationVariant = DOCUMENT) -> int:
    """The number of rounds of a snapshot: two with more than one other cluster (REPL-07)."""
    return 2 if len(builder.remotes) > 1 and not variant.second_round_skipped else 1


Cache = tuple[Snapshot, ...]
"""The snapshots that a subscription has read and not passed, ordered by local position."""


@carries("REPL-11")
def cached(cache: Cache, snapshot: Snapshot, *, limit: int, variant: ReplicationVariant = DOCUMENT) -> Cache:
    """The cache with another snapshot; above ``limit`` the oldest are evicted (REPL-11)."""
    by_local = {one.local: one for one in cache} | {snapshot.local: snapshot}
    ordered = tuple(by_local[local] for local in sorted(by_local))
    if variant.cache_unbounded:
        return ordered
    return ordered[:limit] if variant.newest_dropped else ordered[-limit:]


@carries("REPL-12", "REPL-15")
def passed(cache: Cache, mark_delete: int, *, variant: ReplicationVariant = DOCUMENT) -> tuple[Cache, Snapshot | None]:
    """Mark-delete advanced: the cache without the passed snapshots, and the latest of those (REPL-12)."""
    usable = tuple(one for one in cache if one.local <= mark_delete)
    ahead = cache[len(usable) :]
    if variant.next_snapshot and ahead:
        return ahead[1:], ahead[0]
    if not usable:
        return cache, None
    return ahead, usable[0 if variant.oldest_usable else -1]
