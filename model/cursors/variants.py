"""Variants of the reference of cursors, each with one difference from the document.

As in :mod:`model.deduplication.variants`, each shows what a sentence of the document is for.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from model.variants import NamedVariant, Origin, switched_on


class CursorVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How a topic's subscriptions and their clients differ from the document; not at all by default."""

    hole_jumped: bool = False
    lost_at_boundary: bool = False
    bit_off_by_one: bool = False
    repeated_ack_takes_back: bool = False
    cumulative_one_too_many: bool = False
    cumulative_one_too_few: bool = False
    acks_another_subscription: bool = False
    part_takes_whole_batch: bool = False
    part_ignored: bool = False
    batch_index_acks_overwritten: bool = False
    mark_delete_stays: bool = False
    backlog_of_messages: bool = False
    reset_miscounts_backlog: bool = False
    set_one_late: bool = False
    skips_one_too_many: bool = False
    skip_all_leaves_one: bool = False
    expires_one_too_many: bool = False
    terminated_last_ledger_not_skipped: bool = False
    never_flushed: bool = False
    flush_rate_limited: bool = False
    limited_tenfold: bool = False
    partial_acks_not_persisted: bool = False
    partial_acks_never_persisted: bool = False
    skip_rate_limited: bool = False
    skip_never_persisted: bool = False
    reset_keeps_former_ranges: bool = False
    unlimited: bool = False
    kill_loses_all: bool = False
    kill_acknowledges: bool = False
    unload_loses_ranges: bool = False
    unload_goes_one_further: bool = False
    unload_bypasses_store: bool = False
    range_start_included: bool = False
    range_limit_ignored_on_unload: bool = False
    batch_index_acks_not_recovered: bool = False
    unload_while_cursor_ledger_opens: bool = False
    delivered_to_two: bool = False
    left_forgotten: bool = False
    nack_redelivers_all: bool = False
    nack_ignored: bool = False
    nack_uncounted: bool = False
    acknowledged_delivered: bool = False
    nack_backoff_missing: bool = False
    back_off_too_short: bool = False
    close_loses_acks: bool = False
    crash_acknowledges: bool = False
    lost_ack_filters_redelivery: bool = False
    trims_unacknowledged: bool = False
    entries_go_on: bool = False
    ledger_reopened: bool = False


DOCUMENT = CursorVariant()
"""The subscriptions of the document."""

_named = partial(switched_on, CursorVariant, prefix="ack-")

VARIANTS: tuple[NamedVariant[CursorVariant], ...] = (
    _named("hole_jumped", Origin.DEFECT, "An ack of the entry after the next one acknowledges the next one too."),
    _named("lost_at_boundary", Origin.DEFECT, "An individual ack of the first entry of a later ledger is lost."),
    _named("bit_off_by_one", Origin.DEFECT, "An ack after mark-delete counts for the next entry."),
    _named("repeated_ack_takes_back", Origin.DEFECT, "A second ack of an individually acknowledged entry undoes it."),
    _named("cumulative_one_too_many", Origin.DEFECT, "A cumulative ack includes the entry after its position."),
    _named("cumulative_one_too_few", Origin.DEFECT, "A cumulative ack leaves out its own position."),
    _named("acks_another_subscription", Origin.DEFECT, "An ack counts for all subscriptions of the topic."),
    _named("part_takes_whole_batch", Origin.DEFECT, "An ack of one message of a batch acknowledges the whole entry."),
    _named("part_ignored", Origin.DEFECT, "An ack of some messages of a batch changes nothing."),
    _named(
        "batch_index_acks_overwritten",
        Origin.RELEASE,
        "A cumulative ack that ends within a batch undoes the acks of the rest of that batch.",
        "ManagedCursorImpl.java:2194 (4.0.8)",
    ),
    _named("mark_delete_stays", Origin.DEFECT, "Mark-delete stops one entry before the first one unacknowledged."),
    _named("backlog_of_messages", Origin.DEFECT, "The backlog counts messages instead of entries."),
    _named(
        "reset_miscounts_backlog",
        Origin.RELEASE,
        "After a reset the backlog still leaves out the entries that had been acknowledged individually.",
        "ManagedCursorImpl.java:1491 (4.0.8)",
    ),
    _named("set_one_late", Origin.DEFECT, "A subscription that is reset to an entry begins with the one after it."),
    _named("skips_one_too_many", Origin.DEFECT, "Skipping n entries skips n + 1."),
    _named("skip_all_leaves_one", Origin.DEFECT, "Clearing the backlog leaves the last entry."),
    _named("expires_one_too_many", Origin.DEFECT, "Expiry includes the entry after the last expired one."),
    _named(
        "terminated_last_ledger_not_skipped",
        Origin.RELEASE,
        "Once a terminated topic is loaded again, skipping stops before its last ledger.",
        "ManagedLedgerImpl.java:3802 (4.0.8)",
    ),
    _named("never_flushed", Origin.DEFECT, "A dirty cursor is never flushed."),
    _named(
        "flush_rate_limited",
        Origin.RELEASE,
        "The flush shares the acks' rate limiter, and leaves the cursor dirty if the limiter rejects it.",
        "ManagedCursorImpl.java:2173 (4.0.8)",
    ),
    _named("unlimited", Origin.DEFECT, "Every ack is persisted, whatever the rate limit."),
    _named("limited_tenfold", Origin.DEFECT, "The rate limit is ten times stricter, and nothing is flushed."),
    _named(
        "partial_acks_not_persisted",
        Origin.RELEASE,
        "An ack of a part of a batch is not persisted by itself while no entry after mark-delete is acknowledged.",
        "ManagedCursorImpl.asyncDelete (4.0.8)",
    ),
    _named(
        "partial_acks_never_persisted",
        Origin.DEFECT,
        "The persisted state lacks the acks of single messages of batches.",
    ),
    _named(
        "skip_rate_limited",
        Origin.RELEASE,
        "A skip shares the acks' rate limiter, and is answered if the limiter rejects it.",
        "ManagedCursorImpl.java:2173 (4.0.8)",
    ),
    _named("skip_never_persisted", Origin.DEFECT, "A skip is answered before it is persisted, and left dirty."),
    _named(
        "reset_keeps_former_ranges",
        Origin.RELEASE,
        "A reset is persisted with outdated ranges.",
        "ManagedCursorImpl.internalResetCursor (4.0.8)",
    ),
    _named("kill_loses_all", Origin.DEFECT, "After a kill the subscription is where it was created, reset or loaded."),
    _named("kill_acknowledges", Origin.DEFECT, "After a kill one more entry is acknowledged."),
    _named("unload_loses_ranges", Origin.DEFECT, "An unload loses the individually acknowledged entries."),
    _named("unload_goes_one_further", Origin.DEFECT, "After an unload one more entry is acknowledged."),
    _named("unload_bypasses_store", Origin.DEFECT, "An unload writes even few ranges to the cursor's ledger."),
    _named("range_start_included", Origin.DEFECT, "A recovery includes the position before each range."),
    _named(
        "range_limit_ignored_on_unload",
        Origin.RELEASE,
        "A cursor without writes since its topic was loaded goes to the metadata store, with any number of ranges.",
        "ManagedCursorImpl.java:2826 (4.0.8)",
    ),
    _named(
        "batch_index_acks_not_recovered",
        Origin.RELEASE,
        "A recovery from the metadata store loses the acks of single messages of batches.",
        "ManagedCursorImpl.recover (4.0.8)",
    ),
    _named(
        "unload_while_cursor_ledger_opens",
        Origin.RELEASE,
        "An unload while the cursor's ledger opens persists the former mark-delete position.",
        "ManagedCursorImpl.asyncClose (4.0.8)",
    ),
    _named("delivered_to_two", Origin.DEFECT, "A message that is pending at one consumer is sent to others as well."),
    _named("left_forgotten", Origin.DEFECT, "The pending messages of a consumer that left are not redelivered."),
    _named("nack_redelivers_all", Origin.DEFECT, "A nack redelivers all pending messages of its consumer."),
    _named("nack_ignored", Origin.DEFECT, "A nack redelivers nothing."),
    _named("nack_uncounted", Origin.DEFECT, "A redelivered message has the redelivery count 0."),
    _named("acknowledged_delivered", Origin.DEFECT, "The entry at mark-delete is delivered again."),
    _named(
        "nack_backoff_missing",
        Origin.RELEASE,
        "The client requests redelivery after the same delay each time.",
        "pulsar-client's negative_ack_redelivery_delay_ms (3.13.0)",
    ),
    _named("back_off_too_short", Origin.DEFECT, "The client requests redelivery after half of the delay."),
    _named("close_loses_acks", Origin.DEFECT, "A client that closes does not send its grouped acks."),
    _named("crash_acknowledges", Origin.DEFECT, "The pending messages of a consumer that crashes are acknowledged."),
    _named(
        "lost_ack_filters_redelivery",
        Origin.RELEASE,
        "A client that loses grouped acks because of an unload does not deliver their messages to the application when "
        "they are redelivered.",
        "pulsar-client's tracker of grouped acknowledgments (3.13.0)",
    ),
    _named("trims_unacknowledged", Origin.DEFECT, "A ledger is deleted before all subscriptions acknowledged it."),
    _named("entries_go_on", Origin.DEFECT, "Entry ids of a new ledger continue those of the ledger before it."),
    _named("ledger_reopened", Origin.DEFECT, "A reloaded topic continues to write to its last ledger."),
)
"""All variants."""
