"""Variants of the reference of replicated subscriptions, each with one difference from the document.

Each shows what a sentence of the document, or a choice of the model, is for.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from model.variants import defect, reading, release, variants_of


class ReplicationVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How clusters differ from the reference; not at all by default."""

    second_round_skipped: Annotated[bool, defect("A snapshot takes one round with any number of clusters.")] = False
    first_round_response_counts_twice: Annotated[
        bool,
        release(
            "A response contains the snapshot's name, but not the round: a repeated first-round response counts for "
            "the second round.",
            "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
        ),
    ] = False
    latest_answer_counts: Annotated[
        bool, defect("A snapshot has the positions of the last round, not of the first.")
    ] = False
    snapshot_not_at_highest_response: Annotated[
        bool,
        release(
            "The local position of a snapshot is that of the response handled last, though another response is later "
            "in the log: each replicator handles those of its own cluster.",
            "receivedSnapshotResponse of ReplicatedSubscriptionsSnapshotBuilder (4.0.8)",
        ),
    ] = False
    local_too_early: Annotated[bool, defect("The local position of a snapshot is that of its first request.")] = False
    local_too_late: Annotated[bool, defect("The local position of a snapshot is that of its own marker.")] = False
    position_too_far: Annotated[bool, defect("A response has a position two entries after the cluster's last one.")] = (
        False
    )
    late_answer_accepted: Annotated[
        bool, defect("A response to a snapshot that timed out counts for the one in progress.")
    ] = False
    never_timed_out: Annotated[bool, defect("Snapshots do not time out.")] = False
    began_without_news: Annotated[
        bool, defect("A snapshot begins although nothing was published since the last one.")
    ] = False
    began_while_cut: Annotated[bool, defect("A snapshot begins although a replicator is disconnected.")] = False
    began_for_nobody: Annotated[bool, defect("A snapshot begins although no subscription is replicated.")] = False
    handled_by_every_replicator: Annotated[
        bool,
        defect(
            "A marker is handled by every replicator that reads it, not only by that of the cluster which wrote it."
        ),
    ] = False
    closed_not_opened: Annotated[bool, defect("A request does not open the closed replicator for the response.")] = (
        False
    )
    in_flight_lost: Annotated[bool, defect("Entries in flight over a link that was cut count as sent.")] = False
    snapshot_replicated: Annotated[
        bool, reading("A snapshot's marker is replicated like any other, and cached wherever it is read.")
    ] = False
    markers_held: Annotated[
        bool, defect("Markers that are read stay unacknowledged, as if a consumer received them.")
    ] = False
    next_snapshot: Annotated[bool, defect("An update has the first cached snapshot after mark-delete.")] = False
    oldest_usable: Annotated[bool, defect("An update has the first passed snapshot of the cache, not the last.")] = (
        False
    )
    cache_unbounded: Annotated[bool, defect("Any number of snapshots is cached.")] = False
    newest_dropped: Annotated[bool, defect("A cache that is full drops the newest snapshot, not the oldest.")] = False
    snapshot_cache_not_recovered: Annotated[
        bool,
        release(
            "A reloaded topic begins with an empty cache, and snapshots that were acknowledged after mark-delete are "
            "never read again.",
            "PersistentSubscription.java:207, and filterReadEntries of ManagedCursorImpl (4.0.8)",
        ),
    ] = False
    individual_publishes: Annotated[
        bool, defect("An individual ack counts as if mark-delete were at its position.")
    ] = False
    update_unpublished: Annotated[bool, defect("An advance of mark-delete publishes no update.")] = False
    wrong_cluster: Annotated[bool, defect("An update is applied with the position of another cluster.")] = False
    all_there: Annotated[bool, defect("An update acknowledges the whole log.")] = False
    update_creates_at_latest: Annotated[
        bool,
        release(
            "A missing subscription is created at the end of the topic instead of the position, as in the listing.",
            "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (2.11.0; no longer in 4.0.8)",
        ),
    ] = False
    created_unreplicated: Annotated[bool, defect("A missing subscription is created, but not as replicated.")] = False
    missing_not_created: Annotated[bool, defect("An update for a subscription that is missing is ignored.")] = False
    unreplicated_published: Annotated[
        bool, defect("Subscriptions that are not replicated also cache snapshots and publish updates.")
    ] = False
    update_of_unreplicated_subscription: Annotated[
        bool,
        release(
            "An update moves any subscription of its name, also one that is not replicated in this cluster.",
            "receiveSubscriptionUpdated of ReplicatedSubscriptionsController (4.0.8)",
        ),
    ] = False


DOCUMENT = ReplicationVariant()
"""The unchanged reference."""


VARIANTS = variants_of(ReplicationVariant, prefix="repl-")
"""All variants."""
