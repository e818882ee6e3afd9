"""How a snapshot is made, in one round of answers or in two, and how a subscription caches those that it reads.

The positions of the other clusters are those of the *first* round, the local one is where the last answer of the *last*
round stands. With one other cluster one round will do: everything in its log was in ours before, or comes to us before
its answer does. With more than one it will not: what a third cluster wrote may be in the log of the one that answers,
and not yet in ours. The answers of the second round come behind it (REPL-07). What happens without is explored.

An answer counts for the round that it was asked in. The document does not say so, and releases do not do it; then an
answer of the first round that comes twice, as after a cut link, stands for one of the second.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from model.replication.entries import Positions, Response, Snapshot
from model.replication.variants import DOCUMENT, ReplicationVariant
from model.rules.catalogue import carries


class Builder(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A snapshot that is being made: where its first request is stored, its round, and whose answers are missing.

    ``last``: where the last of the answers of this round stands that came, -1 if none did.
    """

    name: str
    began: int
    remotes: tuple[str, ...]
    missing: tuple[str, ...]
    round: int = 1
    positions: Positions = ()
    last: int = -1


def new_builder(name: str, *, began: int, remotes: tuple[str, ...]) -> Builder:
    """The snapshot of this name begins, with a request that is stored at ``began``."""
    return Builder(name=name, began=began, remotes=remotes, missing=remotes)


@carries("REPL-06", "REPL-07", "REPL-09", "REPL-14", "REPL-16")
def answered(
    builder: Builder, cluster: str, response: Response, *, stored_at: int, variant: ReplicationVariant = DOCUMENT
) -> Builder | Snapshot:
    """A cluster's response, stored here at ``stored_at``: what is missing then, or the snapshot when nothing is.

    The first answer of a cluster has its position; later ones change nothing of it (REPL-06). When all have answered
    and there is more than one of them, a second round begins (REPL-07). The answer that stands last has the local
    position (REPL-09), whichever is handled last: each is by the replicator to its own cluster, at that one's pace.
    Answers 6 and 7, the second stored at 10, give 10 - 6 - 7 (REPL-16).
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
    """How many rounds a snapshot takes: two where there is more than one other cluster (REPL-07)."""
    return 2 if len(builder.remotes) > 1 and not variant.second_round_skipped else 1


Cache = tuple[Snapshot, ...]
"""The snapshots that a subscription has read and not passed, by their local positions."""


@carries("REPL-11")
def cached(cache: Cache, snapshot: Snapshot, *, limit: int, variant: ReplicationVariant = DOCUMENT) -> Cache:
    """The cache with another snapshot; of more than ``limit`` the oldest go (REPL-11)."""
    by_local = {one.local: one for one in cache} | {snapshot.local: snapshot}
    ordered = tuple(by_local[local] for local in sorted(by_local))
    if variant.cache_unbounded:
        return ordered
    return ordered[:limit] if variant.newest_dropped else ordered[-limit:]


@carries("REPL-12", "REPL-15")
def passed(cache: Cache, mark_delete: int, *, variant: ReplicationVariant = DOCUMENT) -> tuple[Cache, Snapshot | None]:
    """Mark-delete has advanced: the cache without what it has passed, and the latest of that (REPL-12)."""
    behind = tuple(one for one in cache if one.local <= mark_delete)
    ahead = cache[len(behind) :]
    if variant.next_snapshot and ahead:
        return ahead[1:], ahead[0]
    if not behind:
        return cache, None
    return ahead, behind[0 if variant.oldest_usable else -1]
