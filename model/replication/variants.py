"""Variants of the reference of replicated subscriptions: the document's clusters with one thing done differently.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document, or a choice where it has none,
is there for.
"""

from __future__ import annotations

from msgspec import Struct

from model.variants import NamedVariant, Origin


class ReplicationVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """What clusters do differently from the reference; by default nothing."""

    second_round_skipped: bool = False
    first_round_response_counts_twice: bool = False
    latest_answer_counts: bool = False
    snapshot_not_at_highest_response: bool = False
    local_too_early: bool = False
    local_too_late: bool = False
    position_too_far: bool = False
    late_answer_accepted: bool = False
    never_timed_out: bool = False
    began_without_news: bool = False
    began_while_cut: bool = False
    began_for_nobody: bool = False
    handled_by_every_replicator: bool = False
    closed_not_opened: bool = False
    in_flight_lost: bool = False
    snapshot_replicated: bool = False
    markers_held: bool = False
    next_snapshot: bool = False
    oldest_usable: bool = False
    cache_unbounded: bool = False
    newest_dropped: bool = False
    snapshot_cache_not_recovered: bool = False
    individual_publishes: bool = False
    update_unpublished: bool = False
    wrong_cluster: bool = False
    all_there: bool = False
    update_creates_at_latest: bool = False
    created_unreplicated: bool = False
    missing_not_created: bool = False
    unreplicated_published: bool = False
    update_of_unreplicated_subscription: bool = False


DOCUMENT = ReplicationVariant()
"""The reference as it is."""


def _named(switch: str, origin: Origin, what: str, code: str = "") -> NamedVariant[ReplicationVariant]:
    variant = ReplicationVariant(**{switch: True})
    return NamedVariant(name=f"repl-{switch.replace('_', '-')}", what=what, origin=origin, variant=variant, code=code)


VARIANTS: tuple[NamedVariant[ReplicationVariant], ...] = (
    _named("second_round_skipped", Origin.DEFECT, "However many clusters there are, one round of answers is enough."),
    _named(
        "first_round_response_counts_twice",
        Origin.RELEASE,
        "An answer carries the snapshot's name, but not the round: one of the first round that comes again counts for "
        "the second.",
        "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
    ),
    _named("latest_answer_counts", Origin.DEFECT, "The positions of the last round are taken, not those of the first."),
    _named(
        "snapshot_not_at_highest_response",
        Origin.RELEASE,
        "The local position of a snapshot is that of the response handled last, though another response is "
        "later in the log: each replicator handles those of its own cluster.",
        "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
    ),
    _named("local_too_early", Origin.DEFECT, "The local position of a snapshot is that of its first request."),
    _named("local_too_late", Origin.DEFECT, "The local position of a snapshot is that of its own marker."),
    _named("position_too_far", Origin.DEFECT, "A cluster answers with a position two entries beyond its last one."),
    _named(
        "late_answer_accepted",
        Origin.DEFECT,
        "An answer to a snapshot that was given up counts for the one that is being made.",
    ),
    _named("never_timed_out", Origin.DEFECT, "Snapshots that take too long are not given up."),
    _named("began_without_news", Origin.DEFECT, "A snapshot begins though nothing was published since the last one."),
    _named("began_while_cut", Origin.DEFECT, "A snapshot begins though a replicator is disconnected."),
    _named("began_for_nobody", Origin.DEFECT, "A snapshot begins though no subscription is replicated."),
    _named(
        "handled_by_every_replicator",
        Origin.DEFECT,
        "A marker is handled by every replicator that reads it, not only by that of the cluster which wrote it.",
    ),
    _named(
        "closed_not_opened", Origin.DEFECT, "A cluster that is asked does not open its closed replicator to answer."
    ),
    _named("in_flight_lost", Origin.DEFECT, "What was on its way over a link that was cut is taken for sent."),
    _named(
        "snapshot_replicated",
        Origin.READING,
        "A snapshot's marker is replicated like any other, and cached wherever it is read.",
    ),
    _named(
        "markers_held",
        Origin.DEFECT,
        "Markers that are read stay unacknowledged, as if a consumer would deal with them.",
    ),
    _named("next_snapshot", Origin.DEFECT, "What is published is the first cached snapshot beyond mark-delete."),
    _named(
        "oldest_usable", Origin.DEFECT, "What is published is the first cached snapshot that will do, not the last."
    ),
    _named("cache_unbounded", Origin.DEFECT, "Any number of snapshots is cached."),
    _named("newest_dropped", Origin.DEFECT, "A cache that is full drops the newest snapshot, not the oldest."),
    _named(
        "snapshot_cache_not_recovered",
        Origin.RELEASE,
        "A topic that is loaded again begins with an empty cache, and the snapshots that were acknowledged behind "
        "mark-delete are never read again.",
        "PersistentSubscription.java:207, and filterReadEntries of ManagedCursorImpl (4.0.8)",
    ),
    _named(
        "individual_publishes", Origin.DEFECT, "An individual ack counts as if mark-delete had come to its position."
    ),
    _named("update_unpublished", Origin.DEFECT, "Nothing is published when mark-delete advances."),
    _named("wrong_cluster", Origin.DEFECT, "An update is applied with the position of another cluster."),
    _named("all_there", Origin.DEFECT, "On an update everything that is there is acknowledged."),
    _named(
        "update_creates_at_latest",
        Origin.RELEASE,
        "A missing subscription is created at the end of the topic, whatever the position, as in the listing.",
        "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (2.11.0; no longer in 4.0.8)",
    ),
    _named("created_unreplicated", Origin.DEFECT, "A missing subscription is created, but not as replicated."),
    _named("missing_not_created", Origin.DEFECT, "An update for a subscription that is missing is ignored."),
    _named(
        "unreplicated_published",
        Origin.DEFECT,
        "Subscriptions that are not replicated cache snapshots and publish updates too.",
    ),
    _named(
        "update_of_unreplicated_subscription",
        Origin.RELEASE,
        "An update moves any subscription of its name, also one that is not replicated in this cluster.",
        "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (4.0.8)",
    ),
)
"""Every variant there is."""
