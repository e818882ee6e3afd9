"""The deviations from document 002: chunking."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

CHUNK_EACH_DEDUPLICATED = "chunk-each-deduplicated"
CHUNK_ONLY_LAST_DEDUPLICATED = "chunk-only-last-deduplicated"
CHUNK_RECOVERY_COUNTS_UNFINISHED = "chunk-recovery-counts-unfinished"

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
)
