"""The deviations from document 003: acknowledgment and cursors."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

BATCH_INDEX_ACKS_NOT_RECOVERED = "batch-index-acks-not-recovered"
BATCH_INDEX_ACKS_OVERWRITTEN = "batch-index-acks-overwritten"
UNLOAD_WHILE_CURSOR_LEDGER_OPENS = "unload-while-cursor-ledger-opens"
UNLOAD_WITHOUT_SESSION_LOSES_ACKS = "unload-without-session-loses-acks"
REPLAY_READ_OUTLIVES_CONSUMERS = "replay-read-outlives-consumers"
PARTIAL_ACKS_NOT_PERSISTED = "partial-acks-not-persisted"
PARTIAL_ACKS_PERSISTED_AS_FIRST = "partial-acks-persisted-as-first"
SKIP_RATE_LIMITED = "skip-rate-limited"
CREATED_CURSOR_PERSISTED_AT_LATEST = "created-cursor-persisted-at-latest"

DEVIATIONS = (
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
)
