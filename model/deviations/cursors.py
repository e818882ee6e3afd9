"""The deviations from document 003: acknowledgment and cursors."""

from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow

RESET_MISCOUNTS_BACKLOG = "reset-miscounts-backlog"
BATCH_INDEX_ACKS_NOT_RECOVERED = "batch-index-acks-not-recovered"
BATCH_INDEX_ACKS_OVERWRITTEN = "batch-index-acks-overwritten"
FLUSH_RATE_LIMITED = "flush-rate-limited"
LOST_ACK_FILTERS_REDELIVERY = "lost-ack-filters-redelivery"
NACK_BACKOFF_MISSING = "nack-backoff-missing"
RANGE_LIMIT_IGNORED_ON_UNLOAD = "range-limit-ignored-on-unload"
UNLOAD_WHILE_CURSOR_LEDGER_OPENS = "unload-while-cursor-ledger-opens"
UNACKED_COUNT_LOWERED_BY_ANY_ACK = "unacked-count-lowered-by-any-ack"
PARTIAL_BATCH_OFF_BACKLOG = "partial-batch-off-backlog"
TERMINATED_LAST_LEDGER_NOT_SKIPPED = "terminated-last-ledger-not-skipped"
REPLAY_READ_OUTLIVES_CONSUMERS = "replay-read-outlives-consumers"
SEND_IN_PROGRESS_CLEARED_EARLY = "send-in-progress-cleared-early"
PARTIAL_ACKS_NOT_PERSISTED = "partial-acks-not-persisted"
SKIP_RATE_LIMITED = "skip-rate-limited"
RESET_KEEPS_FORMER_RANGES = "reset-keeps-former-ranges"
CREATED_CURSOR_PERSISTED_AT_LATEST = "created-cursor-persisted-at-latest"
RESET_PERSISTS_READ_POSITION = "reset-persists-read-position"

DEVIATIONS = (
    Deviation(
        name=RESET_MISCOUNTS_BACKLOG,
        aliases=("backlog-miscounted",),
        rule="ACK-01",
        also=("SERVE-04",),
        statement="After a seek or reset to an earlier position the backlog is too low: it leaves out messages that were individually acknowledged after that position. They are dispatched again. Reloading the topic corrects the count.",
        cause="ManagedCursorImpl.internalResetCursor changes the counter of consumed entries by all entries between the two mark-delete positions (4.0.8, lines 1491 to 1501). It then drops the ranges, which the counter had counted already. After a reset to a later position, ranges in between are counted twice. apache/pulsar#25047 corrects the ranges after the new position; 4.2.4 and 5.0.0-M1 have it.",
        upstream=("apache/pulsar#25047",),
        side="broker",
        releases=(">=2.5.1,<=4.0.8",),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.6.0", "2.5.1"),
        shadow=Shadow(name="backlog-of-messages", statement="The backlog counts messages instead of entries."),
    ),
    Deviation(
        name=BATCH_INDEX_ACKS_NOT_RECOVERED,
        aliases=("batch-acks-lost",),
        rule="ACK-10",
        statement="After a graceful unload, the batch index acks of a partly acknowledged batch are lost, and the broker dispatches these messages again.",
        cause="A cursor that closes writes its batch index acks to the metadata store. If there is no cursor ledger, ManagedCursorImpl.recover restores mark-delete and the ranges, and does not read the batch index acks. Recovery from a cursor ledger reads them, so they survive a kill. Also reported as apache/pulsar#20585 and apache/pulsar#14982; fixed by apache/pulsar#26474, after 5.0.0-M1. In addition, batch index acks alone are not persisted at all, because asyncDelete returns early while there is no range of whole entries (apache/pulsar#26498). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        upstream=("apache/pulsar#26475",),
        side="broker",
        releases=(">=2.6.0,<=5.0.0",),
        seen=("5.0.0-M1", "4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.7.4", "2.6.0"),
        shadow=Shadow(
            name="unload-loses-ranges", statement="An unload loses the individually acknowledged entries, too."
        ),
    ),
    Deviation(
        name=BATCH_INDEX_ACKS_OVERWRITTEN,
        aliases=("batch-acks-overwritten",),
        rule="ACK-04",
        statement="A cumulative ack that ends within a batch undoes the individual acks of the rest of this batch, and the broker dispatches these messages again.",
        cause="ManagedCursorImpl.asyncMarkDelete (ackBatchPosition) replaces the bit set of the entry if the first message left is a later one than before. An individual ack combines both bit sets (4.0.8, line 2194; before apache/pulsar#18042 it always replaced them). It needs two consumers of a Failover subscription, or a client that does not combine the acks itself. 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.11,<=5.0.0",),
        seen=("4.0.8",),
        shadow=Shadow(name="cumulative-one-too-few", statement="A cumulative ack leaves out its own position."),
    ),
    Deviation(
        name=FLUSH_RATE_LIMITED,
        rule="ACK-08",
        statement="The periodic flush shares the acks' rate limiter. If the limiter rejects it, a dirty cursor is not persisted until a later flush.",
        cause="ManagedCursorImpl.flush calls asyncMarkDelete, which asks the same rate limiter as every ack (4.0.8, line 2173) and leaves the cursor dirty if that rejects. The flush came with apache/pulsar#8634. The limiter also answers an ack as if the broker had stored it (apache/pulsar#26484). 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.8.2,<=5.0.0",),
        seen=("4.0.8", "2.10.1", "2.9.1", "2.8.2"),
        shadow=Shadow(name="never-flushed", statement="A dirty cursor is never flushed."),
    ),
    Deviation(
        name=LOST_ACK_FILTERS_REDELIVERY,
        aliases=("lost-ack-hides-message",),
        rule="ACK-11",
        statement="If a topic is unloaded while pulsar-client holds a grouped ack, that ack is lost. The client counts the message as acked, so on redelivery it neither delivers the message nor acks it again.",
        cause="The client's tracker of grouped acks filters redelivered messages by what the application acknowledged, even if the connection for that ack is gone. Seen for cumulative acks. The Java client had the same fault (apache/pulsar#7683).",
        side="client",
        clients={"official": "<=3.13.0"},
        seen=("pulsar-client 3.13.0",),
        shadow=Shadow(
            name="unacked-hidden-by-client",
            statement="The client also filters a redelivered message that its application did not acknowledge.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=NACK_BACKOFF_MISSING,
        aliases=("back-off-constant",),
        rule="ACK-13",
        statement="pulsar-client requests redelivery of a nacked message after the same delay each time. Document 003 promises a delay that doubles.",
        cause="Consumers of pulsar-client have one delay (negative_ack_redelivery_delay_ms) and no schedule. The Java client has one (negativeAckRedeliveryBackoff).",
        upstream=("apache/pulsar-client-cpp#92",),
        side="client",
        clients={"official": "<=3.13.0"},
        seen=("pulsar-client 3.13.0",),
        shadow=Shadow(name="back-off-too-short", statement="The client requests redelivery after half of the delay."),
    ),
    Deviation(
        name=RANGE_LIMIT_IGNORED_ON_UNLOAD,
        aliases=("many-ranges-stored",),
        rule="ACK-10",
        statement="After a second unload without an ack in between, the metadata store has the cursor, even if it has more ranges than managedLedgerMaxUnackedRangesToPersistInMetadataStore. Nothing is lost.",
        cause="ManagedCursorImpl.shouldPersistUnackRangesToLedger needs a cursor ledger that is open for writing. The ledger that the cursor recovered from is read-only until the next ack opens another one (4.0.8, line 2826). 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.11,<=5.0.0",),
        seen=("4.0.8",),
        shadow=Shadow(name="unload-goes-one-further", statement="After an unload one more entry is acknowledged."),
    ),
    Deviation(
        name=UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
        aliases=("moved-as-ledger-opens",),
        rule="ACK-10",
        statement="A graceful unload within about 10 ms of the first ack after a topic was loaded loses this ack, although the broker confirmed it.",
        cause="The first ack after a load opens a cursor ledger and waits for it as a pending operation. ManagedCursorImpl.asyncClose does not wait. It persists the mark-delete position of the last completed operation (lastMarkDeleteEntry), and the ranges from after the ack, which no longer contain what mark-delete passed. Flaky tests upstream show the race between closing and opening (apache/pulsar#18310, apache/pulsar#18362), but not this loss. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
        side="broker",
        releases=(">=2.10.1,<=4.2.4",),
        seen=("4.0.8", "3.3.6", "2.10.1"),
        shadow=Shadow(
            name="opening-loses-ranges",
            statement="The same unload loses the individually acknowledged entries, too.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=UNACKED_COUNT_LOWERED_BY_ANY_ACK,
        aliases=("outstanding-undercounted",),
        rule="ACK-12",
        also=("SERVE-04", "SERVE-05"),
        statement="If a consumer acknowledges a message that is not pending at it, its count of unacknowledged messages falls, even below zero. So it gets more messages than the limit allows.",
        cause="Every individual ack of a consumer lowers its count, whether or not the message is pending there. 3.3.6 and 4.0.8 lower it only for pending messages.",
        side="broker",
        releases=(">=2.10.1,<=3.1.0",),
        seen=("3.1.0", "2.11.0", "2.10.1"),
        gone=("3.3.6", "4.0.8"),
        shadow=Shadow(
            name="unacked-count-lowered-by-nack",
            statement="A redelivery request lowers the count by one too many, too.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=PARTIAL_BATCH_OFF_BACKLOG,
        aliases=("part-off-backlog",),
        rule="ACK-04",
        also=("SERVE-04",),
        statement="A cumulative ack that ends within a batch takes the whole batch off the backlog of a non-durable subscription, although mark-delete stays before it.",
        cause="A non-durable cursor counts the entry as consumed, whatever is left of its batch. The source of 2.11.0 was not read.",
        side="broker",
        releases=(">=2.10.1,<=2.11.0",),
        seen=("2.11.0", "2.10.1"),
        gone=("3.3.6", "4.0.8"),
        shadow=Shadow(name="backlog-of-messages", statement="The backlog counts messages instead of entries."),
    ),
    Deviation(
        name=TERMINATED_LAST_LEDGER_NOT_SKIPPED,
        aliases=("terminated-not-skipped",),
        rule="ACK-04",
        also=("SERVE-04",),
        statement="After a terminated topic is reloaded, a skip leaves the messages of its last ledger, and still answers success. An expiry up to one of them leaves them, too, or all but the first. A peek at one of them returns the last entry before that ledger, or fails with an internal error where there is none.",
        cause="ManagedLedgerImpl.initialize makes the last ledger of a terminated topic the current one, with an entry counter (currentLedgerEntries) of 0. getPositionAfterN, which computes the end of a skip, the position of a peek and where an expiry ends its search, then considers the current ledger empty (4.0.8, lines 3802 to 3808). Other topics have a new ledger as the current one, and the counter is right. 2.11.0 has no current ledger for a terminated topic and skips correctly, but getLastMessageId fails there with a NullPointerException.",
        side="broker",
        releases=(">=3.3.6,<=4.0.8",),
        seen=("4.0.8", "3.3.6"),
        gone=("2.11.0",),
        shadow=Shadow(name="skips-one-too-many", statement="Skipping n entries skips n + 1."),
    ),
    Deviation(
        name=REPLAY_READ_OUTLIVES_CONSUMERS,
        aliases=("replay-outlives-consumers",),
        rule="ACK-12",
        statement="If the last consumer of a Shared or Key_Shared subscription leaves during a replay read, the next consumers receive these messages twice.",
        cause="For the first consumer of an empty dispatcher, PersistentDispatcherMultipleConsumers.addConsumer clears the replay queue and rewinds the cursor, or does so after a pending read. readEntriesComplete (4.0.8, line 695) drops the result and rewinds only for a normal read. The result of a replay read goes to the new consumer, who receives the same messages again from the cursor. apache/pulsar#10662 proposed a fix in 2021 and was not merged; apache/pulsar#23803 is about the same race in Key_Shared. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
        upstream=("apache/pulsar#10662", "apache/pulsar#23803"),
        side="broker",
        releases=(">=2.11,<=5.0.0",),
        seen=("4.0.8", "5.0.0-M1"),
        occurrence="Rare; every time with the failpoint `read-slow`.",
        shadow=Shadow(
            name="leaver-given-twice",
            statement="Messages that were pending at the last consumer that left, and not in the replay queue, are dispatched twice.",
        ),
    ),
    Deviation(
        name=SEND_IN_PROGRESS_CLEARED_EARLY,
        aliases=("replayed-beside-news",),
        rule="ACK-12",
        also=("SERVE-04",),
        statement="Messages that are replayed while the broker dispatches new messages of a Shared or Key_Shared subscription are read and dispatched twice, the second time at once or when there are permits again.",
        cause="PersistentDispatcherMultipleConsumers (of 4.0 both implementations) marks a dispatch in progress with one flag (sendInProgress). The end of one dispatch clears it although the result of another read still waits (readEntriesComplete). The next read then replays messages that are about to be dispatched, which are in the replay queue until then. Without permits they return to that queue once more. The consumer's count of unacknowledged messages rises twice, and an ack lowers it once.",
        side="broker",
        releases=("<4.0",),
        switched_on={CLASSIC: (">=4.0,<=5.0.0",)},
        seldom=(">=4.0,<=5.0.0",),
        seen=("3.3.6", "4.0.8 classic", "4.0.4", "4.0.8"),
        occurrence="On 4.0.8 classic in 7 of 12 plays: `pulsar-conformance replay docs/histories/ACK-12-on-4.0.8-classic.json --broker 4.0.8 --setting subscriptionKeySharedUseClassicPersistentImplementation=true`. Rarely on 4.0.8 (a soak of half an hour shows it once or not at all), once on 4.0.4.",
        shadow=Shadow(
            name="test_a_message_that_was_not_replayed_is_not_dispatched_twice",
            by="small history",
            statement="A new message is dispatched twice while the topic grows.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=PARTIAL_ACKS_NOT_PERSISTED,
        rule="ACK-15",
        statement="An individual ack of a part of a batch is not persisted while no entry after mark-delete is acknowledged. A kill loses it, however old it is.",
        cause="ManagedCursorImpl.asyncDelete returns before it persists anything, and without marking the cursor as dirty, if individualDeletedMessages is empty after the ack. Batch index acks are not in there, so they wait for the next ack of a whole entry. Read in 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
        upstream=("apache/pulsar#26498",),
        side="broker",
        releases=(">=2.10.1,<=5.0.0",),
        seen=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="partial-acks-never-persisted",
            statement="Parts of batches are not persisted with the acks of whole entries, either.",
        ),
    ),
    Deviation(
        name=SKIP_RATE_LIMITED,
        rule="ACK-16",
        statement="Skipping messages, or clearing the backlog, is answered as done although the rate limiter for acks kept the broker from persisting it. A kill before the next flush undoes it.",
        cause="PersistentSubscription.skipMessages and clearBacklog end in ManagedCursorImpl.asyncMarkDelete, which asks the same rate limiter as every ack, and completes at once if that rejects. The same as apache/pulsar#26484 for acks. Read in 2.6.0, 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
        upstream=("apache/pulsar#26484",),
        side="broker",
        releases=(">=2.6.0,<=5.0.0",),
        seen=("4.0.8",),
        occurrence="Every time, if an ack was persisted in the interval before it.",
        shadow=Shadow(
            name="skip-never-persisted",
            statement="A skip is not persisted, even if there is no rate limit.",
        ),
    ),
    Deviation(
        name=RESET_KEEPS_FORMER_RANGES,
        rule="ACK-16",
        also=("ACK-02", "SERVE-04"),
        statement="A cursor that is reset, or moved by a seek, is persisted at its new position with its former ranges. If the broker is killed before the next ack is persisted, the messages in these ranges are acknowledged again, and not redelivered. If the new mark-delete position itself is in one of them, the backlog is one too low.",
        cause="ManagedCursorImpl.internalResetCursor persists the new mark-delete position (internalAsyncMarkDelete), and clears individualDeletedMessages and batchDeletedIndexes only when that is done. persistPositionToLedger writes what is in them. Read in 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.8; 4.2.4 clears them after that, too. The backlog after recovery leaves out the ranges' entries from the mark-delete position on, which is itself counted (getNumberOfEntries asks for their cardinality).",
        side="broker",
        releases=(">=2.6.0,<=4.2.4",),
        seen=("4.0.8", "3.3.6"),
        occurrence="Every time.",
        shadow=Shadow(
            name="reset-not-persisted",
            by="seeded defect",
            statement="A reset is answered without being persisted.",
        ),
    ),
    Deviation(
        name=CREATED_CURSOR_PERSISTED_AT_LATEST,
        rule="ACK-10",
        also=("ACK-09", "ACK-16"),
        statement="A subscription that is created at the earliest message is persisted at the end of the topic. If the topic is unloaded, or the broker killed, before the next ack is persisted, the messages from before it was created are not delivered.",
        cause="ManagedLedgerImpl.asyncOpenCursor persists the new cursor at the last position, and moves it to the first one in memory only (2.6.0, lines 741 to 748). From 2.7.4 on it persists the first one. Read in the byte code of 2.5.1 and 2.7.4, too.",
        side="broker",
        releases=(">=2.5.1,<2.7.4",),
        seen=("2.6.0",),
        gone=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_created_cursor_is_persisted_at_the_latest_message_until_the_next_ack",
            by="small history",
            statement="A later message is acknowledged, too, or the same is lost after an ack was persisted.",
        ),
    ),
    Deviation(
        name=RESET_PERSISTS_READ_POSITION,
        rule="ACK-16",
        also=("ACK-09",),
        statement="If the broker is killed after a reset or a seek, before the next ack is persisted, the message at which the subscription was to begin is acknowledged, and not redelivered.",
        cause="ManagedCursorImpl.internalResetCursor persists the new read position as the mark-delete position (2.10.1, line 1221), and puts the entry before it in memory only. 2.9.1 has the same lines; 2.10.5 and 2.11.0 persist the entry before.",
        side="broker",
        releases=(">=2.6.0,<2.10.5",),
        seen=("2.10.1", "2.6.0"),
        gone=("2.11.0", "3.3.6", "4.0.8"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_reset_that_persists_its_read_position_acknowledges_one_entry_until_the_next_ack",
            by="small history",
            statement="Two entries are acknowledged after the kill, or one after a later ack was persisted.",
        ),
    ),
)
