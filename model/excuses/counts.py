"""The deviations of the counts in the stats: unacknowledged messages and backlogs (SERVE-04)."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

UNREAD_MARKERS_COUNT = "unread-markers-count"
BEGINNING_IN_DELETED_LEDGER_MISCOUNTED = "beginning-in-deleted-ledger-miscounted"
LAST_ENTRY_NOT_IN_BACKLOG = "last-entry-not-in-backlog"
DELETED_LEDGER_IN_BACKLOG = "deleted-ledger-in-backlog"

DEVIATIONS = (
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
        statement="If all ledgers of a topic are deleted while an administrator creates a subscription at the latest message, its backlog has one entry too many until the topic is unloaded. So has that of a subscription that is reset while its mark-delete position is in a deleted ledger.",
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
