"""Variants of the simulated subscriptions: what they do differently from document 003, by default nothing.

The first are what releases do, each named as its deviation; the others are defects that a broker or a client could
have.
"""

from __future__ import annotations

from msgspec import Struct


class CursorVariant(Struct, frozen=True, kw_only=True):
    """Switches, all off."""

    acknowledges_entries: bool = False
    """Clients acknowledge whole entries only, as they do unless they are told otherwise."""

    # ----------------------------------------------------------------------------------------- what releases do
    reset_miscounts_backlog: bool = False
    batch_index_acks_not_recovered: bool = False
    batch_index_acks_overwritten: bool = False
    flush_rate_limited: bool = False
    unload_while_cursor_ledger_opens: bool = False
    nack_backoff_missing: bool = False
    lost_ack_filters_redelivery: bool = False
    range_limit_ignored_on_unload: bool = False
    terminated_last_ledger_not_skipped: bool = False
    replay_read_outlives_consumers: bool = False
    unacked_count_lowered_by_any_ack: bool = False
    partial_batch_off_backlog: bool = False

    # -------------------------------------------------------------------------------------------------- defects
    hole_jumped: bool = False
    """An ack of the entry after the next takes mark-delete over the one between."""
    lost_at_boundary: bool = False
    """An ack of the first entry of a ledger is lost, where it is not the next one to be acknowledged."""
    bit_off_by_one: bool = False
    """An ack beyond mark-delete counts for the entry behind it."""
    repeated_ack_takes_back: bool = False
    """An ack of what is acknowledged individually takes that back."""
    cumulative_one_too_many: bool = False
    cumulative_one_too_few: bool = False
    acks_another_subscription: bool = False
    """An ack counts for all subscriptions of the topic."""
    part_takes_whole_batch: bool = False
    """An ack of one message of a batch counts for its entry."""
    part_ignored: bool = False
    """An ack of some messages of a batch changes nothing."""
    mark_delete_stays: bool = False
    """Mark-delete is told as if it stopped before what was acknowledged individually."""
    backlog_of_messages: bool = False
    """The backlog counts messages instead of entries."""
    unload_loses_ranges: bool = False
    unload_goes_one_further: bool = False
    unload_bypasses_store: bool = False
    """A topic that is moved leaves its few ranges in the cursor's ledger."""
    kill_loses_all: bool = False
    """A kill takes a subscription back to where it was created, set or loaded."""
    kill_acknowledges: bool = False
    """A kill acknowledges one entry more."""
    never_flushed: bool = False
    limited_tenfold: bool = False
    """Acks are persisted ten times more seldom than configured, and not flushed."""
    unlimited: bool = False
    """Every ack is persisted, whatever the limit."""
    delivered_to_two: bool = False
    """What a Shared consumer has is given to others as well."""
    left_forgotten: bool = False
    """What a consumer had that left goes to nobody."""
    nack_redelivers_all: bool = False
    nack_ignored: bool = False
    nack_uncounted: bool = False
    """What was failed with comes again as if for the first time."""
    acknowledged_delivered: bool = False
    """The last entry of mark-delete's is delivered again."""
    trims_unacknowledged: bool = False
    set_one_late: bool = False
    """A subscription that is set to an entry goes on with the one behind it."""
    skips_one_too_many: bool = False
    skip_all_leaves_one: bool = False
    expires_one_too_many: bool = False
    close_loses_acks: bool = False
    """A client that closes does not send what it held back."""
    back_off_too_short: bool = False


AS_DOCUMENTED = CursorVariant()
"""Subscriptions as the document has them."""

AS_RELEASES = CursorVariant(
    reset_miscounts_backlog=True,
    batch_index_acks_not_recovered=True,
    batch_index_acks_overwritten=True,
    flush_rate_limited=True,
    unload_while_cursor_ledger_opens=True,
    nack_backoff_missing=True,
    lost_ack_filters_redelivery=True,
    range_limit_ignored_on_unload=True,
    terminated_last_ledger_not_skipped=True,
    replay_read_outlives_consumers=True,
    unacked_count_lowered_by_any_ack=True,
    partial_batch_off_backlog=True,
)
"""Subscriptions with all that releases are known to do otherwise."""
