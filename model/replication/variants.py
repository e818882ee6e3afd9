"""Variants of the reference of replicated subscriptions, each with one difference from the document.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document, or a choice of the model, is for.
"""

from __future__ import annotations

from msgspec import Struct

from model.variants import NamedVariant, Origin


class ReplicationVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How clusters differ from the reference; not at all by default."""

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
"""The unchanged reference."""


def _named(switch: str, origin: Origin, what: str, code: str = "") -> NamedVariant[ReplicationVariant]:
    variant = ReplicationVariant(**{switch: True})
    return NamedVariant(name=f"repl-{switch.replace('_', '-')}", what=what, origin=origin, variant=variant, code=code)


VARIANTS: tuple[NamedVariant[ReplicationVariant], ...] = (
    _named("second_round_skipped", Origin.DEFECT, "A snapshot takes one round with any number of clusters."),
    _named(
        "first_round_response_counts_twice",
        Origin.RELEASE,
        "A response contains the snapshot's name, but not the round: a repeated first-round response counts for the "
        "second round.",
        "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
    ),
    _named("latest_answer_counts", Origin.DEFECT, "A snapshot has the positions of the last round, not of the first."),
    _named(
        "snapshot_not_at_highest_response",
        Origin.RELEASE,
        "The local position of a snapshot is that of the response handled last, though another response is "
        "later in the log: each replicator handles those of its own cluster.",
        "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
    ),
    _named("local_too_early", Origin.DEFECT, "The local position of a snapshot is that of its first request."),
    _named("local_too_late", Origin.DEFECT, "The local position of a snapshot is that of its own marker."),
    _named("position_too_far", Origin.DEFECT, "A response has a position two entries after the cluster's last one."),
    _named(
        "late_answer_accepted",
        Origin.DEFECT,
        "A response to a snapshot that timed out counts for the one in progress.",
    ),
    _named("never_timed_out", Origin.DEFECT, "Snapshots do not time out."),
    _named("began_without_news", Origin.DEFECT, "A snapshot begins although nothing was published since the last one."),
    _named("began_while_cut", Origin.DEFECT, "A snapshot begins although a replicator is disconnected."),
    _named("began_for_nobody", Origin.DEFECT, "A snapshot begins although no subscription is replicated."),
    _named(
        "handled_by_every_replicator",
        Origin.DEFECT,
        "A marker is handled by every replicator that reads it, not only by that of the cluster which wrote it.",
    ),
    _named("closed_not_opened", Origin.DEFECT, "A request does not open the closed replicator for the response."),
    _named("in_flight_lost", Origin.DEFECT, "Entries in flight over a link that was cut count as sent."),
    _named(
        "snapshot_replicated",
        Origin.READING,
        "A snapshot's marker is replicated like any other, and cached wherever it is read.",
    ),
    _named(
        "markers_held",
        Origin.DEFECT,
        "Markers that are read stay unacknowledged, as if a consumer received them.",
    ),
    _named("next_snapshot", Origin.DEFECT, "An update has the first cached snapshot after mark-delete."),
    _named("oldest_usable", Origin.DEFECT, "An update has the first passed snapshot of the cache, not the last."),
    _named("cache_unbounded", Origin.DEFECT, "Any number of snapshots is cached."),
    _named("newest_dropped", Origin.DEFECT, "A cache that is full drops the newest snapshot, not the oldest."),
    _named(
        "snapshot_cache_not_recovered",
        Origin.RELEASE,
        "A reloaded topic begins with an empty cache, and snapshots that were acknowledged after mark-delete are never "
        "read again.",
        "PersistentSubscription.java:207, and filterReadEntries of ManagedCursorImpl (4.0.8)",
    ),
    _named("individual_publishes", Origin.DEFECT, "An individual ack counts as if mark-delete were at its position."),
    _named("update_unpublished", Origin.DEFECT, "An advance of mark-delete publishes no update."),
    _named("wrong_cluster", Origin.DEFECT, "An update is applied with the position of another cluster."),
    _named("all_there", Origin.DEFECT, "An update acknowledges the whole log."),
    _named(
        "update_creates_at_latest",
        Origin.RELEASE,
        "A missing subscription is created at the end of the topic instead of the position, as in the listing.",
        "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (2.11.0; no longer in 4.0.8)",
    ),
    _named("created_unreplicated", Origin.DEFECT, "A missing subscription is created, but not as replicated."),
    _named("missing_not_created", Origin.DEFECT, "An update for a subscription that is missing is ignored."),
    _named(
        "unreplicated_published",
        Origin.DEFECT,
        "Subscriptions that are not replicated also cache snapshots and publish updates.",
    ),
    _named(
        "update_of_unreplicated_subscription",
        Origin.RELEASE,
        "An update moves any subscription of its name, also one that is not replicated in this cluster.",
        "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (4.0.8)",
    ),
)
"""All variants."""
