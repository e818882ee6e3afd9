"""The deviations from document 002: chunking."""

from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow

CHUNK_EACH_DEDUPLICATED = "chunk-each-deduplicated"
CHUNK_ONLY_LAST_DEDUPLICATED = "chunk-only-last-deduplicated"
CHUNK_RECOVERY_COUNTS_UNFINISHED = "chunk-recovery-counts-unfinished"
REDELIVERY_READS_IN_PARALLEL = "redelivery-reads-in-parallel"
CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER = "chunk-assignment-outlives-consumer"
CHUNKS_DISPATCHED_ONE_BY_ONE = "chunks-dispatched-one-by-one"
CHUNK_ASSIGNED_BEYOND_PERMITS = "chunk-assigned-beyond-permits"
DRAINING_HASH_BLOCKS_CHUNKS = "draining-hash-blocks-chunks"
RECENTLY_JOINED_WAITS_FOR_CHUNKS = "recently-joined-waits-for-chunks"
HASH_REASSIGNED_BETWEEN_CHUNKS = "hash-reassigned-between-chunks"

DEVIATIONS = (
    Deviation(
        name=CHUNK_EACH_DEDUPLICATED,
        aliases=("chunk-each-judged",),
        rule="CHUNK-13",
        also=("REPL-01",),
        statement="With deduplication every chunked message is lost. All chunks have the sequence id of the message, so those after the first are confirmed as duplicates. A cluster with deduplication loses them, too, if another one without it replicates them to it.",
        cause="MessageDeduplication.isDuplicate compares the sequence id of every entry, chunk or not, and of replicated entries that of the original producer (2.11.0). apache/pulsar#20948 changed that for all chunks but the last.",
        upstream=("apache/pulsar#20948",),
        side="broker",
        releases=(">=2.5.1,<=2.11.0", "==3.1.0", "==3.0.0"),
        seen=("3.1.0", "2.11.0", "2.6.0", "2.5.1", "3.0.0"),
        gone=("3.3.6", "4.0.8"),
        shadow=Shadow(
            name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
            by="small history",
            statement="A message that is not split is confirmed, too, although the log does not have it.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CHUNK_ONLY_LAST_DEDUPLICATED,
        aliases=("chunk-last-judged",),
        rule="CHUNK-13",
        statement="With deduplication only the last chunk of a message is deduplicated. The other chunks are stored again whenever they are sent again.",
        cause="MessageDeduplication compares and records an entry only if it is the last chunk of its message (4.0.8, line 447), and does not remember which chunks the log has. If a producer loses its connection between two chunks and sends both again, the log has them twice. If it sends a complete message again, all chunks but the last stay in the backlog of every subscription. Since apache/pulsar#20948; 4.2.4 has the same code.",
        upstream=("apache/pulsar#20948",),
        side="broker",
        releases=(">=3.0.1,<=5.0.1",),
        seen=("5.0.0-M1", "4.0.8", "3.3.6", "5.0.1"),
        gone=("2.11.0",),
        shadow=Shadow(
            name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
            by="small history",
            statement="A later message is confirmed, although the log has only its first chunk.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CHUNK_RECOVERY_COUNTS_UNFINISHED,
        rule="CHUNK-13",
        also=("DEDUP-09", "DEDUP-12"),
        statement="With deduplication, a chunked message that is in flight during an unload is confirmed and lost. Recovery counts its first chunks as the message, so the last chunk is a duplicate. If a chunk of an older message was stored again last, recovery falls back to that message, and later ones are stored again.",
        cause="MessageDeduplication.replayCursor takes the sequence id of every entry, also of chunks that are not the last, and the last one counts, not the highest (4.0.8, line 254). Recording a persisted entry checks that (line 531). 4.2.4 has the same code. It needs a recovery without a snapshot after the chunks.",
        side="broker",
        releases=(">=3.0.1,<=5.0.1",),
        seen=("4.0.8", "3.3.6", "5.0.0-M1", "5.0.1"),
        shadow=Shadow(
            name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
            by="small history",
            statement="A message that was sent only after the unload is confirmed, although the log has only its first chunk.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=REDELIVERY_READS_IN_PARALLEL,
        rule="CHUNK-05",
        also=("CHUNK-03",),
        statement="If a consumer of an Exclusive or Failover subscription requests redelivery while the broker reads, the broker starts a second read beside the first. It dispatches messages twice, or skips some until redelivery is requested again.",
        cause="PersistentDispatcherSingleActiveConsumer.internalRedeliverUnacknowledgedMessages sets havePendingRead to false, although cancelPendingReadRequest cannot cancel a read in progress. The completion of that read then clears the flag of the new one (4.0.8, 4.2.4, 5.0.0-M1 and 5.0.1).",
        upstream=("apache/pulsar#26174",),
        side="broker",
        seldom=("==3.3.6", "==4.0.8", ">=4.2.4,<=5.0.1"),
        seen=("4.0.8", "3.3.6", "4.2.4", "5.0.0-M1"),
        read=("5.0.1",),
        occurrence="In 10 of 200 replays on a standalone; with a bookie as a process of its own in 0 of 240 replays, and once in a check.",
        shadow=Shadow(
            name="test_a_redelivery_request_after_everything_was_read_starts_no_second_read",
            by="small history",
            statement="Messages are dispatched twice or skipped after a redelivery request, although all that was stored at the request had been read.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,
        aliases=("chunk-shared-stalls",),
        rule="CHUNK-09",
        also=("SERVE-04",),
        statement="A Shared subscription is starved after a consumer left with some chunks of a message, or after some chunks were acknowledged, skipped or returned without the others, or where a chunk is stored before the first one of its message. It recovers when the topic is reloaded.",
        cause="The dispatcher remembers which consumer has the first chunk of a message until it dispatches the last chunk (AbstractPersistentDispatcherMultipleConsumers, assignChunk). It does not forget a consumer that left, and reads the entries that it cannot dispatch again and again. What it sends to a consumer that left counts as unacknowledged in the subscription, but at no consumer.",
        upstream=("apache/pulsar#26395", "apache/pulsar#25120"),
        side="broker",
        releases=(">=2.5.1,<=5.0.0-M1",),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.5.1", "5.0.0-M1"),
        shadow=Shadow(
            name="test_anything_else_starves_a_subscription_for_no_known_reason",
            by="small history",
            statement="A subscription is starved after a consumer left with all chunks of a message, or although nothing is left of the message.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CHUNK_ASSIGNED_BEYOND_PERMITS,
        rule="CHUNK-09",
        statement="With several consumers on a Shared subscription, the last chunks of a message are not dispatched to the consumer that has the first ones, nor is anything after them. It needs a receiver queue with fewer messages than the message has chunks. Permits do not end that; the subscription recovers when that consumer leaves or the topic is reloaded.",
        cause="SharedConsumerAssignor counts a chunk against the permits of the consumer whose turn it is, and not of the consumer that has the message. So a read may assign that consumer more chunks than it has permits for. It forgets the message with the last chunk, although the dispatcher returns the chunks beyond the permits to the replay queue. From then on these chunks have no consumer: the dispatcher replays them again and again without a pause, and reads nothing new (4.0.8, 3.3.6). 4.2.4 counts the chunk against the permits of the consumer that has the message.",
        side="broker",
        releases=(">=2.11.0,<=4.0.8",),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        shadow=Shadow(
            name="test_a_last_chunk_is_lost_by_a_deviation_only_if_the_permits_may_have_been_used_up",
            by="small history",
            statement="The last chunk is not dispatched although its consumer had permits left after the others.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CHUNKS_DISPATCHED_ONE_BY_ONE,
        rule="CHUNK-14",
        statement="A Shared subscription with several consumers dispatches the chunks of a message to different consumers, so that no application receives it.",
        cause="PersistentDispatcherMultipleConsumers gives each consumer as many entries as it has permits for, whatever they are. From 2.11.0 on SharedConsumerAssignor gives all chunks of a message to one consumer; 2.6.0 and 2.10.1 have no such class.",
        side="broker",
        releases=(">=2.6.0,<2.11.0",),
        seen=("2.10.1", "2.6.0"),
        gone=("2.11.0", "3.3.6", "4.0.8"),
        occurrence="In 5 of 5 replays on both releases.",
        shadow=Shadow(
            name="test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment",
            by="small history",
            statement="A Key_Shared subscription dispatches the chunks of a message to two consumers, although its hash was not reassigned.",
        ),
    ),
    Deviation(
        name=DRAINING_HASH_BLOCKS_CHUNKS,
        rule="CHUNK-14",
        statement="If a Key_Shared consumer has only the first chunks of a message when another consumer joins or leaves, and the message's hash is assigned to another consumer, the other chunks are never dispatched. The subscription recovers when the consumer that has the first chunks leaves.",
        cause="The hash drains at the first consumer, so its other messages are blocked until that consumer has acknowledged all that is pending (PIP-379). It acknowledges chunks only with the whole message. KeySharedDispatcher does not treat chunks in any way of their own: Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
        upstream=("apache/pulsar#23265",),
        side="broker",
        releases=(">=4.0.1,<=5.0.1",),
        seen=("4.0.4", "4.0.8", "4.2.4", "4.0.1", "5.0.1"),
        shadow=Shadow(
            name="test_chunks_that_a_draining_hash_does_not_block_are_due",
            by="small history",
            statement="The other chunks are not dispatched although no consumer joined or left, or the first chunk is not dispatched either, or a later message of another hash.",
        ),
    ),
    Deviation(
        name=RECENTLY_JOINED_WAITS_FOR_CHUNKS,
        rule="CHUNK-14",
        also=("CHUNK-09",),
        statement="With the classic implementation, if a Key_Shared consumer has only the first chunks of a message when another consumer joins, and the message's hash is assigned to that one, the other chunks are never dispatched (unless they waited for replay), and little is read after them; also where its producer died. The subscription recovers when the consumer of the first chunks leaves.",
        cause="A recently joined consumer receives nothing new until all that was read before it joined is acknowledged (recentlyJoinedConsumers). The first chunks were read before, and their consumer acknowledges them only with the whole message. While a consumer is recently joined, the dispatcher does not look ahead (isDispatcherStuckOnReplays stays unset). Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
        upstream=("apache/pulsar#23265",),
        side="broker",
        releases=(">=2.6.0,<4.0",),
        switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
        seen=("3.3.6", "4.0.8 classic", "2.11.0", "2.10.1", "2.6.0", "5.0.0-M1 classic"),
        occurrence="Every time, in 17 steps.",
        shadow=Shadow(
            name="test_chunks_that_a_recently_joined_consumer_does_not_wait_for_are_due",
            by="small history",
            statement="The other chunks are not dispatched although no consumer joined or left, or an earlier message is not dispatched either.",
        ),
    ),
    Deviation(
        name=HASH_REASSIGNED_BETWEEN_CHUNKS,
        rule="CHUNK-14",
        statement="If a Key_Shared consumer has only the first chunks of a message when another consumer joins or leaves, and the message's hash is assigned to another consumer, the other chunks are dispatched to that one. No consumer delivers the message.",
        cause="The dispatcher selects a consumer for each chunk by its hash. Chunks that wait for replay when a consumer joins are not held back from it. Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
        upstream=("apache/pulsar#23265",),
        side="broker",
        releases=(">=3.0,<4.0",),
        seldom=(">=2.10.1,<3.0",),
        seen=("3.3.6", "2.11.0"),
        fixed=("4.0",),
        shadow=Shadow(
            name="test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment",
            by="small history",
            statement="Chunks are dispatched to two consumers although no consumer joined or left between them.",
        ),
    ),
)
