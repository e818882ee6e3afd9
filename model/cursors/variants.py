"""Variants of the reference of cursors, each with one difference from the document.

Each shows what a sentence of the document is for.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from model.variants import defect, release, variants_of


class CursorVariant(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """How a topic's subscriptions and their clients differ from the document; not at all by default."""

    hole_jumped: Annotated[bool, defect("An ack of the entry after the next one acknowledges the next one too.")] = (
        False
    )
    lost_at_boundary: Annotated[bool, defect("An individual ack of the first entry of a later ledger is lost.")] = False
    bit_off_by_one: Annotated[bool, defect("An ack after mark-delete counts for the next entry.")] = False
    repeated_ack_takes_back: Annotated[
        bool, defect("A second ack of an individually acknowledged entry undoes it.")
    ] = False
    cumulative_one_too_many: Annotated[bool, defect("A cumulative ack includes the entry after its position.")] = False
    cumulative_one_too_few: Annotated[bool, defect("A cumulative ack leaves out its own position.")] = False
    acks_another_subscription: Annotated[bool, defect("An ack counts for all subscriptions of the topic.")] = False
    part_takes_whole_batch: Annotated[
        bool, defect("An ack of one message of a batch acknowledges the whole entry.")
    ] = False
    part_ignored: Annotated[bool, defect("An ack of some messages of a batch changes nothing.")] = False
    batch_index_acks_overwritten: Annotated[
        bool,
        release(
            "A cumulative ack that ends within a batch undoes the acks of the rest of that batch.",
            "ManagedCursorImpl.java:2194 (4.0.8)",
        ),
    ] = False
    mark_delete_stays: Annotated[bool, defect("Mark-delete stops one entry before the first one unacknowledged.")] = (
        False
    )
    backlog_of_messages: Annotated[bool, defect("The backlog counts messages instead of entries.")] = False
    reset_miscounts_backlog: Annotated[
        bool,
        release(
            "After a reset the backlog still leaves out the entries that had been acknowledged individually.",
            "ManagedCursorImpl.java:1491 (4.0.8)",
        ),
    ] = False
    set_one_late: Annotated[bool, defect("A subscription that is reset to an entry begins with the one after it.")] = (
        False
    )
    skips_one_too_many: Annotated[bool, defect("Skipping n entries skips n + 1.")] = False
    skip_all_leaves_one: Annotated[bool, defect("Clearing the backlog leaves the last entry.")] = False
    expires_one_too_many: Annotated[bool, defect("Expiry includes the entry after the last expired one.")] = False
    terminated_last_ledger_not_skipped: Annotated[
        bool,
        release(
            "Once a terminated topic is loaded again, skipping stops before its last ledger.",
            "ManagedLedgerImpl.java:3802 (4.0.8)",
        ),
    ] = False
    never_flushed: Annotated[bool, defect("A dirty cursor is never flushed.")] = False
    flush_rate_limited: Annotated[
        bool,
        release(
            "The flush shares the acks' rate limiter, and leaves the cursor dirty if the limiter rejects it.",
            "ManagedCursorImpl.java:2173 (4.0.8)",
        ),
    ] = False
    unlimited: Annotated[bool, defect("Every ack is persisted, whatever the rate limit.")] = False
    limited_tenfold: Annotated[bool, defect("The rate limit is ten times stricter, and nothing is flushed.")] = False
    partial_acks_not_persisted: Annotated[
        bool,
        release(
            "An ack of a part of a batch is not persisted by itself while no entry after mark-delete is acknowledged.",
            "ManagedCursorImpl.asyncDelete (4.0.8)",
        ),
    ] = False
    partial_acks_never_persisted: Annotated[
        bool, defect("The persisted state lacks the acks of single messages of batches.")
    ] = False
    skip_rate_limited: Annotated[
        bool,
        release(
            "A skip shares the acks' rate limiter, and is answered if the limiter rejects it.",
            "ManagedCursorImpl.java:2173 (4.0.8)",
        ),
    ] = False
    skip_never_persisted: Annotated[bool, defect("A skip is answered before it is persisted, and left dirty.")] = False
    reset_keeps_former_ranges: Annotated[
        bool, release("A reset is persisted with outdated ranges.", "ManagedCursorImpl.internalResetCursor (4.0.8)")
    ] = False
    kill_loses_all: Annotated[
        bool, defect("After a kill the subscription is where it was created, reset or loaded.")
    ] = False
    kill_acknowledges: Annotated[bool, defect("After a kill one more entry is acknowledged.")] = False
    unload_loses_ranges: Annotated[bool, defect("An unload loses the individually acknowledged entries.")] = False
    unload_goes_one_further: Annotated[bool, defect("After an unload one more entry is acknowledged.")] = False
    unload_bypasses_store: Annotated[bool, defect("An unload writes even few ranges to the cursor's ledger.")] = False
    range_start_included: Annotated[bool, defect("A recovery includes the position before each range.")] = False
    range_limit_ignored_on_unload: Annotated[
        bool,
        release(
            "A cursor without writes since its topic was loaded goes to the metadata store, with any number of ranges.",
            "ManagedCursorImpl.java:2826 (4.0.8)",
        ),
    ] = False
    batch_index_acks_not_recovered: Annotated[
        bool,
        release(
            "A recovery from the metadata store loses the acks of single messages of batches.",
            "ManagedCursorImpl.recover (4.0.8)",
        ),
    ] = False
    unload_while_cursor_ledger_opens: Annotated[
        bool,
        release(
            "An unload while the cursor's ledger opens persists the former mark-delete position.",
            "ManagedCursorImpl.asyncClose (4.0.8)",
        ),
    ] = False
    delivered_to_two: Annotated[
        bool, defect("A message that is pending at one consumer is sent to others as well.")
    ] = False
    left_forgotten: Annotated[bool, defect("The pending messages of a consumer that left are not redelivered.")] = False
    nack_redelivers_all: Annotated[bool, defect("A nack redelivers all pending messages of its consumer.")] = False
    nack_ignored: Annotated[bool, defect("A nack redelivers nothing.")] = False
    nack_uncounted: Annotated[bool, defect("A redelivered message has the redelivery count 0.")] = False
    acknowledged_delivered: Annotated[bool, defect("The entry at mark-delete is delivered again.")] = False
    nack_backoff_missing: Annotated[
        bool,
        release(
            "The client requests redelivery after the same delay each time.",
            "pulsar-client's negative_ack_redelivery_delay_ms (3.13.0)",
        ),
    ] = False
    back_off_too_short: Annotated[bool, defect("The client requests redelivery after half of the delay.")] = False
    close_loses_acks: Annotated[bool, defect("A client that closes does not send its grouped acks.")] = False
    crash_acknowledges: Annotated[bool, defect("The pending messages of a consumer that crashes are acknowledged.")] = (
        False
    )
    lost_ack_filters_redelivery: Annotated[
        bool,
        release(
            "A client that loses grouped acks because of an unload does not deliver their messages to the application"
            " when they are redelivered.",
            "pulsar-client's tracker of grouped acknowledgments (3.13.0)",
        ),
    ] = False
    trims_unacknowledged: Annotated[bool, defect("A ledger is deleted before all subscriptions acknowledged it.")] = (
        False
    )
    entries_go_on: Annotated[bool, defect("Entry ids of a new ledger continue those of the ledger before it.")] = False
    ledger_reopened: Annotated[bool, defect("A reloaded topic continues to write to its last ledger.")] = False


DOCUMENT = CursorVariant()
"""The subscriptions of the document."""


VARIANTS = variants_of(CursorVariant, prefix="ack-")
"""All variants."""
