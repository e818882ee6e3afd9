"""Variants of the simulated subscriptions: those of the reference, and those of a simulated broker or client."""

from __future__ import annotations

from typing import Any

from model.cursors.variants import CursorVariant
from model.deduplication.variants import Variant


class SimulatedVariant(CursorVariant, frozen=True, kw_only=True):
    """Switches, all off. The first one is allowed; each of the others is a deviation of a release, under its name."""

    acknowledges_entries: bool = False
    """Clients acknowledge whole entries only, which is their default."""
    peek_counts_acknowledged: bool = False
    """A peek counts entries from mark-delete, acknowledged ones too."""
    replay_read_outlives_consumers: bool = False
    unacked_count_lowered_by_any_ack: bool = False
    last_entry_not_in_backlog: bool = False
    opening_loses_ranges: bool = False
    """An unload while the cursor's ledger is being opened loses the individually acknowledged entries."""
    expiry_stops_at_acknowledged: bool = False
    reset_persists_read_position: bool = False
    created_cursor_persisted_at_latest: bool = False
    skip_past_terminated_end_starts_over: bool = False
    later_ranges_not_counted: bool = False
    all_ranges_counted: bool = False
    partial_acks_persisted_as_first: bool = False
    leaver_given_twice: bool = False
    """What was pending at the last consumer that left, and not in the replay queue, is sent to the next one twice."""
    ack_covers_whole_message: bool = False
    """The individual ack of a chunk acknowledges all chunks of its message."""
    chunk_assignment_outlives_consumer: bool = False
    chunk_without_permits_blocks_others: bool = False
    unacked_count_lowered_by_nack: bool = False
    """A redelivery request lowers the consumer's count of unacknowledged messages by one too many."""
    delayed_lost: bool = False
    """A delayed message whose time has not come when it may be sent is never sent."""
    delayed_forgotten: bool = False
    """When the last consumer leaves, the delayed messages whose time has not come are forgotten."""
    ttl_expires_messages_of_readers: bool = False
    expiry_of_all_moves_readers: bool = False
    expires_younger: bool = False
    """Expiry by time includes the entry after the last older one."""
    expires_one_at_a_time: bool = False
    """Expiry by time expires the first older entry only."""
    many_ranges_lose_last: bool = False
    """If many ranges are persisted, the last one is lost."""
    many_ranges_are_joined: bool = False
    """If many ranges are persisted, the last two are joined: what is between them counts as acknowledged."""
    reader_skips_one: bool = False
    reader_repeats_one: bool = False
    key_shared_policies_mixed: bool = False
    name_in_use_refused: bool = False
    """A Key_Shared consumer is refused if another one has its name."""
    namespace_requests_lost: bool = False
    """A request for a namespace is answered, and has no effect."""
    first_subscription_cleared: bool = False
    """A request to clear the backlogs of a namespace clears that of one subscription."""
    later_skip_lost: bool = False
    """Of two requests at once, the later one is answered, and has no effect if it is a skip."""
    unacked_hidden_by_client: bool = False
    """Where a client filters redelivered messages, it filters one as well that its application did not acknowledge."""


AS_DOCUMENTED = SimulatedVariant()
"""Subscriptions as documented."""

AS_RELEASES = SimulatedVariant(
    reset_miscounts_backlog=True,
    batch_index_acks_not_recovered=True,
    batch_index_acks_overwritten=True,
    flush_rate_limited=True,
    partial_acks_not_persisted=True,
    skip_rate_limited=True,
    reset_keeps_former_ranges=True,
    unload_while_cursor_ledger_opens=True,
    nack_backoff_missing=True,
    lost_ack_filters_redelivery=True,
    range_limit_ignored_on_unload=True,
    terminated_last_ledger_not_skipped=True,
    replay_read_outlives_consumers=True,
    unacked_count_lowered_by_any_ack=True,
    last_entry_not_in_backlog=True,
    chunk_assignment_outlives_consumer=True,
    chunk_without_permits_blocks_others=True,
    expiry_stops_at_acknowledged=True,
)
"""Subscriptions with all known deviations that releases since 2.10.5 have."""


def deduplication(name: str) -> Variant:
    """The variant of this name of the reference of deduplication."""
    switches: dict[str, Any] = {name.replace("-", "_"): True}
    return Variant(**switches)
