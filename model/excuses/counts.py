"""The deviations of the counts in the stats: unacknowledged messages and backlogs (SERVE-04)."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

PENDING_ACKS_OUTLIVE_LAST_CONSUMER = "pending-acks-outlive-last-consumer"
UNLIMITED_SUBSCRIPTION_NOT_COUNTED = "unlimited-subscription-not-counted"
PARTIAL_ACKS_NOT_COUNTED_OFF = "partial-acks-not-counted-off"
UNREAD_MARKERS_COUNT = "unread-markers-count"
DROPPED_PENDING_ACKS_STILL_COUNTED = "dropped-pending-acks-still-counted"
SKIPPED_MESSAGES_STILL_COUNTED = "skipped-messages-still-counted"
SKIPPED_PARTS_COUNTED_OFF_AGAIN = "skipped-parts-counted-off-again"
BEGINNING_IN_DELETED_LEDGER_MISCOUNTED = "beginning-in-deleted-ledger-miscounted"
LAST_ENTRY_NOT_IN_BACKLOG = "last-entry-not-in-backlog"
DELETED_LEDGER_IN_BACKLOG = "deleted-ledger-in-backlog"

DEVIATIONS = (
    Deviation(
        name=PENDING_ACKS_OUTLIVE_LAST_CONSUMER,
        rule="SERVE-04",
        statement="The last consumer of a Shared or Key_Shared subscription leaves before the broker has persisted its last individual acks. Their messages are subtracted from the subscription's unacknowledged messages twice. The count stays too low, even below zero, until the topic is unloaded.",
        cause="Since apache/pulsar#25528, Consumer.individualAck lowers the counts only once the cursor has persisted the ack (applyPendingAckCompletions). PersistentDispatcherMultipleConsumers.removeConsumer subtracts all that the consumer still counts, and removes its pending acks (PendingAcksMap.forEachAndClose) only if other consumers are left. After the last one, the completed ack finds its message there, and addAndGetUnAckedMsgs subtracts it again. If a command has several parts of an incomplete batch, pulsar-client's acks each contain all of them, and computeAckedCount compares each with the cursor before that command: k parts are subtracted k times. The classic dispatcher never removes them (read in the sources of 5.0.0-M1). 4.0.8 and 4.2.4 lower the counts before they persist the ack. apache/pulsar#26663 proposes a fix.",
        upstream=("apache/pulsar#25528", "apache/pulsar#26663"),
        side="broker",
        releases=(">=5.0.0-M1,<=5.0.1",),
        seen=("5.0.0-M1", "5.0.1"),
        gone=("4.2.4", "4.0.8"),
        occurrence="In 5 of 5 replays, in 9 steps, while the first ack opens the cursor's ledger; in 0 of 5 each on 4.2.4 and 4.0.8.",
        shadow=Shadow(
            name="test_acks_are_subtracted_twice_only_after_the_last_consumer_left_with_them",
            by="small history",
            statement="The count is lower by more than the messages of these acks, although another consumer is left, although an earlier read showed the acks, or after an unload.",
        ),
    ),
    Deviation(
        name=UNLIMITED_SUBSCRIPTION_NOT_COUNTED,
        rule="SERVE-04",
        statement="If a namespace does not limit the unacknowledged messages of a subscription, the stats of its Shared and Key_Shared subscriptions show none. Those of their consumers show them.",
        cause="PersistentDispatcherMultipleConsumers.addUnAckedMessages returns before it counts if the limit is 0 (read in 2.5.0, 2.6.0, 2.7.0, 2.7.2 and 2.7.4). 2.8.0 counts always.",
        side="broker",
        releases=(">=2.5.0,<2.8.0",),
        seen=("2.7.4", "2.6.0"),
        gone=("2.8.2", "2.10.1", "4.0.8"),
        occurrence="Every time: in 8 of 8 replays of 8 steps.",
        shadow=Shadow(
            name="test_only_a_subscription_without_a_limit_is_not_counted_and_not_at_all",
            by="small history",
            statement="The stats show some of the messages, or none although the namespace has a limit, or sets no limits at all.",
        ),
    ),
    Deviation(
        name=PARTIAL_ACKS_NOT_COUNTED_OFF,
        rule="SERVE-04",
        statement="The broker counts the acknowledged messages of a batch as unacknowledged at their consumer until the whole batch is acknowledged.",
        cause="Consumer.messageAcked lowers the count only in removePendingAcks, which it calls for a whole entry or for a batch without messages left (read in 2.6.0, 2.7.4, 2.8.2 and 2.9.1). 2.10.1 lowers it by the messages of each ack.",
        side="broker",
        releases=(">=2.6.0,<=2.9.1",),
        seen=("2.9.1", "2.8.2", "2.7.4", "2.6.0", "2.8.1", "2.9.0"),
        gone=("2.10.1", "4.0.8"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_acknowledged_parts_of_a_batch_are_still_counted_by_a_deviation_and_nothing_else_is",
            by="small history",
            statement="More messages are counted than the batch has, or those of a batch that is acknowledged as a whole.",
        ),
    ),
    Deviation(
        name=UNREAD_MARKERS_COUNT,
        rule="SERVE-04",
        statement="On a topic with replicated subscriptions, a marker that no dispatcher has read yet counts as an unacknowledged message: in the backlog, which grows with every snapshot while there is no consumer, in peeks, which return markers, and in skips, which skip fewer messages.",
        cause="Only a dispatcher that reads a marker acknowledges it (AbstractBaseDispatcher.filterEntriesForConsumer). ManagedCursorImpl counts entries without looking at them (getNumberOfEntriesInBacklog, asyncGetNthEntry, asyncSkipEntries).",
        upstream=("apache/pulsar#6437",),
        side="broker",
        releases=(">=2.10,<=5.0.1",),
        seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0", "5.0.1"),
        shadow=Shadow(
            name="test_the_backlog_has_no_more_than_the_markers_after_mark_delete",
            by="small history",
            statement="The backlog has more entries than there are markers and unacknowledged messages, or less than there are unacknowledged messages.",
        ),
        occurrence="Every time.",
    ),
    Deviation(
        name=DROPPED_PENDING_ACKS_STILL_COUNTED,
        rule="SERVE-04",
        also=("SERVE-05", "SERVE-03"),
        statement="If an administrator skips or expires messages that a consumer has, and the consumer acknowledges or nacks them afterwards, it still has them in its count of unacknowledged messages. The count never falls again, until the consumer leaves. At its limit, the consumer receives nothing more.",
        cause="When mark-delete has moved, PersistentDispatcherMultipleConsumers.readMoreEntries calls PendingAcksMap.removeAllUpTo for each consumer, which does not lower unackedMessages. The later ack finds no pending ack (Consumer.removePendingAcks), so it does not lower it either (read in the bytecode of 4.0.8). 3.3.6 removes nothing there.",
        side="broker",
        releases=(">=4.0.0,<=4.0.8",),
        seen=("4.0.8", "4.0.1", "4.0.6", "4.0.0"),
        gone=("3.3.6",),
        shadow=Shadow(
            name="test_a_consumer_that_acknowledges_once_more_is_counted_exactly_again",
            by="small history",
            statement="The count has more than the messages that were acknowledged twice, or less than those that are unacknowledged.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=SKIPPED_MESSAGES_STILL_COUNTED,
        rule="SERVE-04",
        also=("SERVE-05", "SERVE-03"),
        statement="If an administrator skips or expires messages that a consumer of a Shared or Key_Shared subscription has, the broker still counts them as unacknowledged until that consumer acknowledges them, too. A consumer at its limit stays blocked, although nothing is left to acknowledge.",
        cause="When PersistentSubscription.clearBacklog and skipMessages, and PersistentMessageExpiryMonitor, have moved the mark-delete position, they call Dispatcher.afterAckMessages only, which leaves pending acks and unackedMessages alone (read in the bytecode of 4.0.8). 4.2.4 calls Dispatcher.markDeletePositionMoveForward, which removes the pending acks up to there and lowers the count (apache/pulsar#25581, #25592).",
        upstream=("apache/pulsar#25581", "apache/pulsar#25592"),
        side="broker",
        releases=(">=2.8.2,<=4.0.8",),
        seen=("4.0.8", "3.3.6", "3.0.7", "2.11.0", "2.10.1", "2.8.2"),
        gone=("4.2.4",),
        occurrence="Every time; on 5.0.0-M1 in 0 of 3 replays.",
        shadow=Shadow(
            name="test_a_count_includes_what_was_skipped_by_a_deviation_and_nothing_else",
            by="small history",
            statement="The count has more than the skipped messages, also those whose redelivery was requested, or a consumer without skipped messages is blocked.",
        ),
    ),
    Deviation(
        name=SKIPPED_PARTS_COUNTED_OFF_AGAIN,
        rule="SERVE-04",
        statement="If an administrator skips the rest of a batch that a consumer has acknowledged in part, or the consumer or another one acknowledges the rest, and the consumer then acknowledges a part of it once more (which may be while the batch is in flight), or requests redelivery of the rest, the earlier parts are subtracted from its unacknowledged messages a second time. The count is too low, even below zero.",
        cause="An ack of a part carries the whole ack set of the batch. Consumer.getAckedCountForBatchIndexLevelEnabled compares it with the acknowledged parts of the cursor, which forgets them when the whole batch is acknowledged. Then all parts in the ack set, or in the redelivery request, count as new, as long as the batch is pending at the consumer. After a skip the cursor forgets them only once mark-delete is persisted.",
        side="broker",
        releases=(">=2.11,<=4.0.8",),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        gone=("4.2.4",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_parts_are_counted_off_again_only_with_a_batch_that_was_skipped_in_part",
            by="small history",
            statement="The count is lower by more than the earlier parts, or without a skip.",
        ),
    ),
    Deviation(
        name=LAST_ENTRY_NOT_IN_BACKLOG,
        aliases=("part-off-backlog", "partial-batch-off-backlog"),
        rule="SERVE-04",
        statement="A non-durable subscription that begins at the last entry of a topic does not count it in its backlog, which stays too small by one.",
        cause="NonDurableCursorImpl.recoverCursor takes a backlog of 0 unless the read position is before the last entry (compareTo, by the byte code of 2.11.0). If it is the last entry, that one is left out. With two entries the backlog is right.",
        side="broker",
        releases=(">=2.6.2,<=2.11.0",),
        seen=("2.11.0", "2.10.1", "2.9.0", "2.9.1", "2.8.2", "2.7.4", "2.6.2"),
        gone=("3.3.6", "4.0.8"),
        occurrence="Every time, before any ack: in 12 of 12 and in 2 of 2 replays on 2.11.0; with a second entry in 0 of 5.",
        shadow=Shadow(name="backlog-of-messages", statement="The backlog counts messages instead of entries."),
    ),
    Deviation(
        name=DELETED_LEDGER_IN_BACKLOG,
        rule="SERVE-04",
        statement="If all ledgers of a topic with entries are deleted, a new subscription at the earliest message has the entries of the last of them in its backlog. No consumer receives them, and the backlog stays too large until the topic is unloaded.",
        cause="ManagedLedgerImpl.getFirstPosition returns a position before the first entry of the ledger of lastConfirmedEntry where all its entries are deleted. getFirstPositionAndCounter then subtracts getNumberOfEntries from there, which does not find the deleted ledger, from the counter of the last position (described in apache/pulsar#25813, on 3.0.12).",
        upstream=("apache/pulsar#25813", "apache/pulsar#26094"),
        side="broker",
        releases=(">=3.0.7,<=3.3.6",),
        seen=("3.3.6", "3.0.7"),
        gone=("4.0.8", "4.2.4"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_backlog_has_the_last_deleted_ledger_by_a_deviation_and_nothing_else",
            by="small history",
            statement="The backlog has other entries than those of the last deleted ledger, or has them although a ledger is left or the topic was reloaded.",
        ),
    ),
    Deviation(
        name=BEGINNING_IN_DELETED_LEDGER_MISCOUNTED,
        rule="SERVE-04",
        statement="If all ledgers of a topic are deleted while an administrator creates a subscription at the latest message, its backlog has one entry too many until the topic is unloaded.",
        cause="The request creates the cursor, at the last entry of a ledger that trimming then deletes, and resets it. The next valid position is in the new ledger, so ManagedCursorImpl.internalResetCursor moves mark-delete from the deleted ledger to before that one's first entry, and changes the counter of consumed entries by getNumberOfEntries(Range.closedOpen(from, to)). The upper end leaves one out, and the lower end, which would make up for it, is not counted because its ledger is not there (-1). 4.2.4 has no such range any more (apache/pulsar#25047).",
        upstream=("apache/pulsar#25047",),
        side="broker",
        releases=(">=3.0.7,<=4.0.8",),
        seen=("4.0.8",),
        read=("3.0.7", "3.3.6"),
        occurrence="In 21 of 30 replays in lanes on busy cores, in 4 of 20 one after another, in 1 of 80 creations with less load.",
        shadow=Shadow(
            name="test_a_backlog_has_one_entry_too_many_by_a_deviation_where_a_subscription_began_in_a_deleted_ledger",
            by="small history",
            statement="The backlog has two entries too many, or one although the last ledger has room, or the subscription began at the earliest message, or the topic was reloaded.",
        ),
    ),
)
