"""The deviations from document 003: acknowledgment and cursors."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

RESET_MISCOUNTS_BACKLOG = "reset-miscounts-backlog"
BATCH_INDEX_ACKS_NOT_RECOVERED = "batch-index-acks-not-recovered"
BATCH_INDEX_ACKS_OVERWRITTEN = "batch-index-acks-overwritten"
ACKS_AFTER_RESET_NOT_PERSISTED = "acks-after-reset-not-persisted"
FLUSH_RATE_LIMITED = "flush-rate-limited"
LOST_ACK_FILTERS_REDELIVERY = "lost-ack-filters-redelivery"
NACK_BACKOFF_MISSING = "nack-backoff-missing"
RANGE_LIMIT_IGNORED_ON_UNLOAD = "range-limit-ignored-on-unload"
UNLOAD_WHILE_CURSOR_LEDGER_OPENS = "unload-while-cursor-ledger-opens"
UNLOAD_WITHOUT_SESSION_LOSES_ACKS = "unload-without-session-loses-acks"
TERMINATED_LAST_LEDGER_NOT_SKIPPED = "terminated-last-ledger-not-skipped"
LATER_RANGES_NOT_COUNTED = "later-ranges-not-counted"
ALL_RANGES_COUNTED = "all-ranges-counted"
REPLAY_READ_OUTLIVES_CONSUMERS = "replay-read-outlives-consumers"
PARTIAL_ACKS_NOT_PERSISTED = "partial-acks-not-persisted"
PARTIAL_ACKS_PERSISTED_AS_FIRST = "partial-acks-persisted-as-first"
SKIP_RATE_LIMITED = "skip-rate-limited"
RESET_KEEPS_FORMER_RANGES = "reset-keeps-former-ranges"
SKIP_PAST_TERMINATED_END_STARTS_OVER = "skip-past-terminated-end-starts-over"
CREATED_CURSOR_PERSISTED_AT_LATEST = "created-cursor-persisted-at-latest"
RESET_PERSISTS_READ_POSITION = "reset-persists-read-position"

TAKE_BACK = frozenset(
    {
        BATCH_INDEX_ACKS_OVERWRITTEN,
        TERMINATED_LAST_LEDGER_NOT_SKIPPED,
        SKIP_PAST_TERMINATED_END_STARTS_OVER,
        LATER_RANGES_NOT_COUNTED,
    }
)
"""They leave messages that were assumed to be acknowledged. Those may be with the consumers that had them."""

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
        releases=(">=2.5.1,<=4.0.8", "==2.5.0"),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.6.0", "2.5.1", "2.5.0"),
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
        releases=(">=2.6.0,<=5.0.0-M1",),
        seen=("5.0.0-M1", "4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.7.4", "2.6.0"),
        gone=("5.0.1",),
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
        releases=(">=2.11,<=5.0.0-M1",),
        seen=("4.0.8", "5.0.0-M1"),
        gone=("5.0.1",),
        shadow=Shadow(name="cumulative-one-too-few", statement="A cumulative ack leaves out its own position."),
    ),
    Deviation(
        name=FLUSH_RATE_LIMITED,
        rule="ACK-08",
        statement="The periodic flush shares the acks' rate limiter. If the limiter rejects it, a dirty cursor is not persisted until a later flush.",
        cause="ManagedCursorImpl.flush calls asyncMarkDelete, which asks the same rate limiter as every ack (4.0.8, line 2173) and leaves the cursor dirty if that rejects. The flush came with apache/pulsar#8634. The limiter also answers an ack as if the broker had stored it (apache/pulsar#26484). 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.8.2,<=5.0.1",),
        seen=("4.0.8", "2.10.1", "2.9.1", "2.8.2", "5.0.1"),
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
        releases=(">=2.11,<=5.0.1",),
        seen=("4.0.8", "5.0.1"),
        shadow=Shadow(name="unload-goes-one-further", statement="After an unload one more entry is acknowledged."),
    ),
    Deviation(
        name=UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
        aliases=("moved-as-ledger-opens",),
        rule="ACK-10",
        statement="A graceful unload within about 10 ms of the first ack after a topic was loaded loses this ack, although the broker confirmed it.",
        cause="The first ack after a load opens a cursor ledger and waits for it as a pending operation. ManagedCursorImpl.asyncClose does not wait. It persists the mark-delete position of the last completed operation (lastMarkDeleteEntry), and the ranges from after the ack, which no longer contain what mark-delete passed. Flaky tests upstream show the race between closing and opening (apache/pulsar#18310, apache/pulsar#18362), but not this loss. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
        side="broker",
        releases=(">=2.10.0,<=4.2.4", "==2.6.0"),
        seen=("4.0.8", "3.3.6", "2.10.1", "2.10.0", "2.6.0", "4.2.4"),
        shadow=Shadow(
            name="opening-loses-ranges",
            statement="The same unload loses the individually acknowledged entries, too.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=UNLOAD_WITHOUT_SESSION_LOSES_ACKS,
        rule="ACK-10",
        statement="The session of a broker in the metadata store has expired. An unload then loses the acks and skips that were not persisted before, as a kill does, and still answers success.",
        cause="Not traced. The cursor is recovered from its own ledger, with the state that was last written there: a write to the metadata store needs the session.",
        side="broker",
        releases=(">=4.0.8,<=4.2.4",),
        seen=("4.0.8", "4.2.4"),
        occurrence="In 4 of 4 replays on each of them.",
        shadow=Shadow(
            name="test_an_unload_without_a_session_loses_only_what_was_not_persisted",
            by="small history",
            statement="An ack that was persisted is lost, or one is lost by an unload although the session has not expired.",
        ),
    ),
    Deviation(
        name=TERMINATED_LAST_LEDGER_NOT_SKIPPED,
        aliases=("terminated-not-skipped",),
        rule="ACK-04",
        also=("SERVE-04", "SERVE-01", "ACK-01"),
        statement="After a terminated topic is reloaded, a skip leaves the messages of its last ledger, and still answers success. An expiry up to one of them leaves them, too, or all but the first. A peek at one of them returns the last entry before that ledger, or fails with an internal error where there is none. A reset to the time of one of them goes to the first of them, or fails so.",
        cause="ManagedLedgerImpl.initialize makes the last ledger of a terminated topic the current one, with an entry counter (currentLedgerEntries) of 0. getPositionAfterN, which computes the end of a skip, the position of a peek and where an expiry or a reset to a time searches, then considers the current ledger empty (4.0.8, lines 3802 to 3808). Other topics have a new ledger as the current one, and the counter is right. 2.11.0 has no current ledger for a terminated topic and skips correctly, but getLastMessageId fails there with a NullPointerException.",
        side="broker",
        releases=(">=3.3.6,<=5.0.1",),
        seen=("4.0.8", "3.3.6", "4.2.4", "5.0.1"),
        gone=("2.11.0",),
        shadow=Shadow(name="skips-one-too-many", statement="Skipping n entries skips n + 1."),
    ),
    Deviation(
        name=LATER_RANGES_NOT_COUNTED,
        rule="ACK-04",
        also=("ACK-01",),
        statement="A skip that passes several acknowledged ranges skips fewer messages than it was asked for: it allows for the first ranges only, one or more. A peek returns an earlier entry in the same way, perhaps an acknowledged one.",
        cause="ManagedCursorImpl.getNumIndividualDeletedEntriesToSkip keeps the upper end of a range (state.startPosition), although it returns that object to its recycler. If it becomes the upper end of the next range, that range seems to begin before the kept position, and it and those after it are not counted. The recycler decides which object is used again, so the same request may be right the next time (2.11.0). Netty 4.1.72 and later take the oldest object first. 2.10.5 and 3.0.2 return only the lower end.",
        upstream=("apache/pulsar#20262", "apache/pulsar#20326"),
        side="broker",
        releases=(">=2.8.2,<2.8.5", ">=2.9.1,<2.9.6", ">=2.10.0,<2.10.5", ">=2.11.0,<2.11.2", "==3.0.0"),
        seen=("2.11.0", "2.8.2", "2.9.1", "2.10.1", "3.0.0"),
        gone=("2.10.5", "3.3.6", "4.0.8"),
        fixed=(
            "2.8.5",
            "2.9.6",
            "2.11.2",
        ),
        occurrence="In 10 of 10 replays each on 2.11.0 and 2.9.1 where 12 ranges are passed, in 0 of 10 on 2.10.5; the longer ones in 7 of 8 on 3.0.0, and 8 of 8 each on 2.8.2 and 2.10.1.",
        shadow=Shadow(
            name="test_a_skip_counts_the_first_of_several_ranges_at_least",
            by="small history",
            statement="A skip does not even allow for the first acknowledged range, or passes one range only and skips too few.",
        ),
    ),
    Deviation(
        name=ALL_RANGES_COUNTED,
        rule="ACK-04",
        also=("ACK-01", "ACK-03"),
        statement="A skip that passes an acknowledged range skips more messages than it was asked for, as if all acknowledged ranges of the subscription were before its end. Nobody receives these messages. A peek returns a later entry in the same way.",
        cause="The same as that of `later-ranges-not-counted`. Before 4.1.72, Netty's recycler takes the newest object first, so the kept upper end of a range becomes the lower end of the next one. The unacknowledged entries between them then count as none, and the search goes on to the last range.",
        upstream=("apache/pulsar#20262", "apache/pulsar#20326"),
        side="broker",
        releases=(">=2.5.0,<2.8.2", "==2.9.0"),
        seen=("2.7.4", "2.6.0", "2.8.1", "2.9.0"),
        gone=("2.10.5", "4.0.8"),
        fixed=("2.8.2",),
        occurrence="In 10 of 10 replays each on 2.8.1 and 2.9.0 where 12 ranges are passed, and in 9 of 9 on 2.7.4; in 5 of 6 others on 2.6.0. Always as far as all ranges reach.",
        shadow=Shadow(
            name="test_a_skip_that_counts_all_ranges_goes_exactly_so_far_and_passes_one",
            by="small history",
            statement="A skip goes further by another number of messages, or passes no acknowledged range and skips too many.",
        ),
    ),
    Deviation(
        name=REPLAY_READ_OUTLIVES_CONSUMERS,
        aliases=("replay-outlives-consumers",),
        rule="ACK-12",
        also=("ACK-01",),
        statement="If the last consumer of a Shared or Key_Shared subscription leaves during a replay read, or while what was read waits to be dispatched, the next consumers receive these messages twice, or once if a reset has acknowledged them meanwhile.",
        cause="For the first consumer of an empty dispatcher, PersistentDispatcherMultipleConsumers.addConsumer clears the replay queue and rewinds the cursor, or does so after a pending read. readEntriesComplete (4.0.8, line 695) drops the result and rewinds only for a normal read. The result of a replay read goes to the new consumer, who receives the same messages again from the cursor. So does that of a normal read that waits for the dispatcher's thread: it counts as complete (havePendingRead) before. apache/pulsar#10662 proposed a fix in 2021 and was not merged; apache/pulsar#23803 is about the same race in Key_Shared. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
        upstream=("apache/pulsar#10662", "apache/pulsar#23803"),
        side="broker",
        releases=(">=2.11,<=5.0.1",),
        seen=("4.0.8", "5.0.0-M1", "5.0.1"),
        occurrence="Rare; every time with the failpoint `read-slow`. Delayed messages are replayed when their time comes: with the failpoint, a reset then leaves one to the next consumer.",
        shadow=Shadow(
            name="leaver-given-twice",
            statement="Messages that were pending at the last consumer that left, and not in the replay queue, are dispatched twice.",
        ),
    ),
    Deviation(
        name=PARTIAL_ACKS_NOT_PERSISTED,
        rule="ACK-15",
        statement="An individual ack of a part of a batch is not persisted while no entry after mark-delete is acknowledged. A kill loses it, however old it is.",
        cause="ManagedCursorImpl.asyncDelete returns before it persists anything, and without marking the cursor as dirty, if individualDeletedMessages is empty after the ack. Batch index acks are not in there, so they wait for the next ack of a whole entry. Read in 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
        upstream=("apache/pulsar#26498",),
        side="broker",
        releases=(">=2.10.1,<=5.0.1",),
        seen=("4.0.8", "5.0.1"),
        occurrence="Every time.",
        shadow=Shadow(
            name="partial-acks-never-persisted",
            statement="Parts of batches are not persisted with the acks of whole entries, either.",
        ),
    ),
    Deviation(
        name=PARTIAL_ACKS_PERSISTED_AS_FIRST,
        rule="ACK-15",
        also=("ACK-09", "ACK-10", "SERVE-03"),
        statement="If several batches are partly acknowledged, a kill leaves of each the messages that are left of the first one: messages that nobody acknowledged are lost, and acknowledged ones are redelivered.",
        cause="ManagedCursorImpl.buildBatchEntryDeletionIndexInfoList adds the delete set of each batch to the builder of the one before without clearing it, so each begins with that of the first (2.6.0, lines 2404 to 2419). apache/pulsar#9504 describes it and clears the set; 2.9.1 has that line.",
        upstream=("apache/pulsar#9504",),
        side="broker",
        releases=(">=2.6.0,<2.6.4", ">=2.7.0,<2.7.1"),
        seen=("2.6.0",),
        gone=("2.10.1", "3.3.6", "4.0.8"),
        fixed=(
            "2.6.4",
            "2.7.1",
        ),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_kill_gives_all_batches_the_parts_of_the_first_by_a_deviation_and_no_others",
            by="small history",
            statement="One batch is partly acknowledged and another of its messages is lost, or the first of several has lost one.",
        ),
    ),
    Deviation(
        name=SKIP_RATE_LIMITED,
        rule="ACK-16",
        statement="Skipping messages, or clearing the backlog, is answered as done although the rate limiter for acks kept the broker from persisting it. A kill before the next flush undoes it.",
        cause="PersistentSubscription.skipMessages and clearBacklog end in ManagedCursorImpl.asyncMarkDelete, which asks the same rate limiter as every ack, and completes at once if that rejects. The same as apache/pulsar#26484 for acks. Read in 2.6.0, 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
        upstream=("apache/pulsar#26484",),
        side="broker",
        releases=(">=2.6.0,<=5.0.1", "==2.5.1"),
        seen=("4.0.8", "2.5.1", "5.0.1"),
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
        releases=(">=2.6.0,<=5.0.1",),
        seen=("4.0.8", "3.3.6", "5.0.1"),
        occurrence="Every time.",
        shadow=Shadow(
            name="reset-not-persisted",
            by="seeded defect",
            statement="A reset is answered without being persisted.",
        ),
    ),
    Deviation(
        name=SKIP_PAST_TERMINATED_END_STARTS_OVER,
        rule="ACK-04",
        also=("ACK-10", "SERVE-04"),
        statement="After a topic was terminated, whose last ledger was empty, and reloaded, a skip of more messages than there are left does not acknowledge them all: where it reaches the end, it starts over at the beginning of the last ledger.",
        cause="ManagedLedgerImpl.initialize drops the empty ledger from the list, and keeps it as the current one. getPositionAfterN stops at the current ledger, which it never meets, and takes the last one of the list as the one that follows (3.3.6, line 3600, since apache/pulsar#17971).",
        upstream=("apache/pulsar#17971",),
        side="broker",
        releases=("==2.10.5", "==2.11.0", ">=3.3.6,<=5.0.1"),
        seen=("4.0.8", "3.3.6", "4.2.4", "2.11.0", "2.10.5", "5.0.1"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_skip_past_the_end_of_a_terminated_topic_starts_over_and_nothing_else_is_left",
            by="small history",
            statement="A skip of no more messages than there are leaves some, or the topic was not terminated and reloaded.",
        ),
    ),
    Deviation(
        name=CREATED_CURSOR_PERSISTED_AT_LATEST,
        rule="ACK-10",
        also=("ACK-09", "ACK-16", "CHUNK-03", "CHUNK-07", "CHUNK-09", "DEDUP-16"),
        statement="A subscription that is created at the earliest message is persisted at the end of the topic. If the topic is unloaded, or the broker killed, before the next ack is persisted, the messages from before it was created are not delivered.",
        cause="ManagedLedgerImpl.asyncOpenCursor persists the new cursor at the last position, and moves it to the first one in memory only (2.6.0, lines 741 to 748). From 2.7.4 on it persists the first one. Read in the byte code of 2.5.1 and 2.7.4, too.",
        side="broker",
        releases=(">=2.5.1,<2.7.4", "==2.5.0"),
        seen=("2.6.0", "2.5.1", "2.7.0", "2.7.1", "2.7.2", "2.6.2", "2.6.1", "2.5.0"),
        gone=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_created_cursor_is_persisted_at_the_latest_message_until_the_next_ack",
            by="small history",
            statement="A later message is acknowledged, too, or the same is lost after an ack was persisted.",
        ),
    ),
    Deviation(
        name=ACKS_AFTER_RESET_NOT_PERSISTED,
        rule="ACK-08",
        statement="After a reset or a seek, individual acks are not persisted until mark-delete advances.",
        cause="ManagedCursorImpl.internalMarkDelete skips a mark-delete position that is before the persisted one (2.10.1, line 1885). A reset persists the read position (`reset-persists-read-position`), so the mark-delete position before it is always skipped, together with the acked ranges after it. 2.10.0 skips nothing; 2.10.3 persists the right position.",
        upstream=("apache/pulsar#18237",),
        side="broker",
        releases=(">=2.10.1,<2.10.3",),
        seen=("2.10.1", "2.10.2"),
        occurrence="In 2 of 2 replays on each; of 18 steps in 2 of 2 on 2.10.2.",
        shadow=Shadow(
            name="test_acks_after_a_reset_may_not_be_persisted_only_until_mark_delete_advances",
            by="small history",
            statement="The cursor is not persisted after mark-delete advanced, or without a reset.",
        ),
    ),
    Deviation(
        name=RESET_PERSISTS_READ_POSITION,
        rule="ACK-16",
        also=("ACK-09",),
        statement="If the broker is killed after a reset or a seek, before the next ack is persisted, the message at which the subscription was to begin is acknowledged, and not redelivered.",
        cause="ManagedCursorImpl.internalResetCursor persists the new read position as the mark-delete position (2.10.1, line 1221), and puts the entry before it in memory only. 2.9.1 and 2.10.2 have the same lines; 2.10.3 and 2.11.0 persist the entry before.",
        upstream=("apache/pulsar#18237",),
        side="broker",
        releases=(">=2.6.0,<2.10.3",),
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
