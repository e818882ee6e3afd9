"""Deviations: where a release, or its client, is known to differ from a document, by name.

A deviation is a switch of the model: the states that it makes possible are held beside the others, marked with its
name. Which releases have it, since when, and what upstream says of it is data that ships with the suite
(``conformance/known``); here is only what the model must know: the rule that it breaks, and how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from model.judgement import Allowed, Broken, Side

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A named way of breaking a rule; ``side``: on which side of the wire, where the wire was watched."""

    name: str
    rule: str
    how: str
    side: Side | None = None

    def broken(self, because: str | None = None) -> Broken:
        """What to answer where it is not known: ``because``, what was seen, in a sentence, if there is more to say."""
        return Broken(self.rule, self.how if because is None else f"{because}: {self.how}", self.name, self.side)


OVERLAPPING_BATCH_DROPPED = "overlapping-batch-dropped"
PUSHED_ID_IN_PRODUCER_SUCCESS = "pushed-id-in-producer-success"
BATCH_WITHOUT_HIGHEST_ID = "batch-without-highest-id"
SOURCE_RESUMES_FROM_PUSHED_ID = "source-resumes-from-pushed-id"
CLOSE_OVERTAKES_PRODUCER_SUCCESS = "close-overtakes-producer-success"
ROLLOVER_REOPENS_CLOSED_LEDGER = "rollover-reopens-closed-ledger"
SECOND_RECOVERY_NOT_AWAITED = "second-recovery-not-awaited"
SNAPSHOT_POSITION_AHEAD = "snapshot-position-ahead"
DEDUPLICATION_ENABLED_IN_FLIGHT = "deduplication-enabled-in-flight"
FLUSH_RATE_LIMITED = "flush-rate-limited"
NACK_BACKOFF_MISSING = "nack-backoff-missing"
LOST_ACK_FILTERS_REDELIVERY = "lost-ack-filters-redelivery"
RESET_MISCOUNTS_BACKLOG = "reset-miscounts-backlog"
BATCH_INDEX_ACKS_NOT_RECOVERED = "batch-index-acks-not-recovered"
RANGE_LIMIT_IGNORED_ON_UNLOAD = "range-limit-ignored-on-unload"
UNLOAD_WHILE_CURSOR_LEDGER_OPENS = "unload-while-cursor-ledger-opens"
BATCH_INDEX_ACKS_OVERWRITTEN = "batch-index-acks-overwritten"
TERMINATED_LAST_LEDGER_NOT_SKIPPED = "terminated-last-ledger-not-skipped"
UNACKED_COUNT_LOWERED_BY_ANY_ACK = "unacked-count-lowered-by-any-ack"
PARTIAL_BATCH_OFF_BACKLOG = "partial-batch-off-backlog"
REPLAY_READ_OUTLIVES_CONSUMERS = "replay-read-outlives-consumers"
LEAVE_TRIGGERS_NO_READ = "leave-triggers-no-read"
PENDING_READ_OUTLIVES_CONSUMERS = "pending-read-outlives-consumers"
REPLAY_HEAD_OF_LINE_BLOCKING = "replay-head-of-line-blocking"
REDELIVERY_READS_IN_PARALLEL = "redelivery-reads-in-parallel"
CHUNK_EACH_DEDUPLICATED = "chunk-each-deduplicated"
CHUNK_ONLY_LAST_DEDUPLICATED = "chunk-only-last-deduplicated"
CHUNK_RECOVERY_COUNTS_UNFINISHED = "chunk-recovery-counts-unfinished"
CHUNK_REPEATED_DISCARDS_BUFFER = "chunk-repeated-discards-buffer"
CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE = "chunk-buffers-survive-resubscribe"
CHUNK_DISCARDED_NOT_REDELIVERED = "chunk-discarded-not-redelivered"
CHUNK_NACK_RETURNS_LAST_ONLY = "chunk-nack-returns-last-only"
CHUNK_DUPLICATES_NOT_ACKED = "chunk-duplicates-not-acked"
CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER = "chunk-assignment-outlives-consumer"
RECENTLY_JOINED_RECEIVES_REPLAY = "recently-joined-receives-replay"
DRAINING_REFCOUNT_DOUBLED = "draining-refcount-doubled"
RETURNED_HASH_NOT_IN_CLEARED_TOTAL = "returned-hash-not-in-cleared-total"
LOOK_AHEAD_SKIPS_REPLAY = "look-ahead-skips-replay"
NEW_MESSAGE_OVERTAKES_REPLAY = "new-message-overtakes-replay"
PENDING_ACKS_WITHOUT_HASH = "pending-acks-without-hash"
SEND_IN_PROGRESS_CLEARED_EARLY = "send-in-progress-cleared-early"
REWIND_SKIPPED_AFTER_REPLAY_READ = "rewind-skipped-after-replay-read"

RECOVERY_IGNORES_REPLICATOR_POSITIONS = "recovery-ignores-replicator-positions"
UPDATE_OF_UNREPLICATED_SUBSCRIPTION = "update-of-unreplicated-subscription"
REQUEST_WITHOUT_REMOTE_CLUSTER = "request-without-remote-cluster"
UPDATE_CREATES_AT_LATEST = "update-creates-at-latest"
FIRST_ROUND_RESPONSE_COUNTS_TWICE = "first-round-response-counts-twice"
SNAPSHOT_NOT_AT_HIGHEST_RESPONSE = "snapshot-not-at-highest-response"
CLOSED_REPLICATOR_READS_NO_REQUEST = "closed-replicator-reads-no-request"
REQUEST_BEFORE_REPLICATOR_EXISTS = "request-before-replicator-exists"
SNAPSHOT_CACHE_NOT_RECOVERED = "snapshot-cache-not-recovered"
TOO_LARGE_TO_REPLICATE = "too-large-to-replicate"
REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE = "replicator-stuck-on-too-large-message"

REPLAY_HASH_KEPT_AFTER_ACK = "replay-hash-kept-after-ack"

DEVIATIONS: dict[str, Deviation] = {
    deviation.name: deviation
    for deviation in (
        Deviation(
            REPLAY_HASH_KEPT_AFTER_ACK,
            "KEY-13",
            "a message that was acknowledged while it waited to come again goes on holding up what is read of its hash",
        ),
        Deviation(
            UPDATE_OF_UNREPLICATED_SUBSCRIPTION,
            "REPL-18",
            "an update moves the subscription of its name, be it replicated there or not",
        ),
        Deviation(
            REQUEST_WITHOUT_REMOTE_CLUSTER,
            "REPL-18",
            "a cluster with a replicated subscription of a topic that is not replicated asks nobody, again and again",
        ),
        Deviation(
            UPDATE_CREATES_AT_LATEST,
            "REPL-14",
            "an update that finds no subscription creates it at the end of the topic, wherever its own position is",
        ),
        Deviation(
            TOO_LARGE_TO_REPLICATE,
            "REPL-01",
            "a message that is too large once a replicator has added where it comes from is passed over, for good",
        ),
        Deviation(
            REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE,
            "REPL-01",
            "a replicator that has such a message to send when its link comes back stands still from then on",
        ),
        Deviation(
            SNAPSHOT_CACHE_NOT_RECOVERED,
            "REPL-12",
            "snapshots that were read behind an unacknowledged message, before the topic was loaded anew, are lost",
        ),
        Deviation(
            REQUEST_BEFORE_REPLICATOR_EXISTS,
            "REPL-09",
            "a snapshot of a topic that is being loaded leaves out clusters whose replicators are not there yet",
        ),
        Deviation(
            FIRST_ROUND_RESPONSE_COUNTS_TWICE,
            "REPL-07",
            "an answer of the first round that comes again counts for the second one",
        ),
        Deviation(
            SNAPSHOT_NOT_AT_HIGHEST_RESPONSE,
            "REPL-09",
            "a snapshot has the position of the answer that was handled last, and another one stands behind it",
        ),
        Deviation(
            CLOSED_REPLICATOR_READS_NO_REQUEST,
            "REPL-17",
            "a replicator that was closed with an idle topic reads nothing until it is opened, no request either",
        ),
        Deviation(
            RECOVERY_IGNORES_REPLICATOR_POSITIONS,
            "REPL-01",
            "with deduplication on, what a replicator sends again to a topic that was loaded anew is stored twice",
        ),
        Deviation(
            CHUNK_EACH_DEDUPLICATED,
            "CHUNK-13",
            "deduplication judges each chunk by its sequence id, which all chunks of a message share: only the first "
            "one is stored, and all are confirmed",
            "broker",
        ),
        Deviation(
            CHUNK_ONLY_LAST_DEDUPLICATED,
            "CHUNK-13",
            "deduplication judges the last chunk of a message only, and stores all others again whenever they are sent "
            "again",
            "broker",
        ),
        Deviation(
            CHUNK_RECOVERY_COUNTS_UNFINISHED,
            "CHUNK-13",
            "a topic that is loaded again takes a message for stored of which only the first chunks are: what is "
            "missing of it is confirmed as a duplicate",
            "broker",
        ),
        Deviation(
            CHUNK_REPEATED_DISCARDS_BUFFER,
            "CHUNK-04",
            "a consumer that is sent a chunk which it has already throws away what it has of the message, and that "
            "chunk, and does not deliver it",
            "client",
        ),
        Deviation(
            CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE,
            "CHUNK-04",
            "a consumer that subscribes again, or asks for everything again, keeps what it has of messages, and takes "
            "their first chunks for repetitions",
            "client",
        ),
        Deviation(
            CHUNK_DISCARDED_NOT_REDELIVERED,
            "CHUNK-08",
            "a consumer does not ask again for the chunks that it discarded",
            "client",
        ),
        Deviation(
            CHUNK_NACK_RETURNS_LAST_ONLY,
            "CHUNK-07",
            "a consumer of a shared subscription that fails with a message gives back its last chunk only",
            "client",
        ),
        Deviation(
            CHUNK_DUPLICATES_NOT_ACKED,
            "CHUNK-07",
            "a consumer does not acknowledge, with the message, chunks of it that are stored twice",
            "client",
        ),
        Deviation(
            REDELIVERY_READS_IN_PARALLEL,
            "CHUNK-05",
            "if a consumer of an Exclusive or Failover subscription requests redelivery while the broker reads, "
            "the broker starts a second read beside the first, and sends messages twice",
            "broker",
        ),
        Deviation(
            CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,
            "CHUNK-09",
            "once chunks of a message are with a consumer that left, or are acknowledged without the others, nothing "
            "more is sent to a shared subscription until its topic is loaded again",
            "broker",
        ),
        Deviation(
            NEW_MESSAGE_OVERTAKES_REPLAY,
            "KEY-09",
            "what a consumer asked for again waits without its hash, so new messages of that hash are sent before it",
        ),
        Deviation(
            PENDING_ACKS_WITHOUT_HASH,
            "KEY-06",
            "what a consumer had that left waits without its hash, perhaps until another consumer than its key's has "
            "permits, and new messages of its key are sent before it",
        ),
        Deviation(
            REWIND_SKIPPED_AFTER_REPLAY_READ,
            "KEY-13",
            "who joins while something is being read for replay, and all for whom it is have left, is given that, and "
            "the rest only once something new is sent",
        ),
        Deviation(
            SEND_IN_PROGRESS_CLEARED_EARLY,
            "ACK-12",
            "what is replayed while new messages are being sent is read and sent once more",
        ),
        Deviation(
            LOOK_AHEAD_SKIPS_REPLAY,
            "KEY-13",
            "what a consumer permits, leaves, asks for again or unblocks while the broker is about to send what it has "
            "read is passed over when nothing of that can be sent and the broker looks ahead at the end of the log",
        ),
        Deviation(
            RETURNED_HASH_NOT_IN_CLEARED_TOTAL,
            "KEY-11",
            "a hash that came back to the consumer that it drained at is not counted among those that were cleared",
        ),
        Deviation(
            DRAINING_REFCOUNT_DOUBLED,
            "KEY-11",
            "a hash that came back to a consumer and goes away again is counted on top of what was counted before; it "
            "never drains, and what it blocks does not come",
        ),
        Deviation(
            RECENTLY_JOINED_RECEIVES_REPLAY,
            "KEY-01",
            "a consumer that joined is given what was read before, of keys of which another one has messages",
        ),
        Deviation(
            PENDING_READ_OUTLIVES_CONSUMERS,
            "KEY-02",
            "what was being read when the last consumer left is sent to the next one, before and besides what is read "
            "anew from the first message that is not acknowledged",
        ),
        Deviation(
            REPLAY_HEAD_OF_LINE_BLOCKING,
            "KEY-13",
            "where messages were asked for again, or may come out of order, what was put aside for a consumer without "
            "permits holds up what was put aside for others",
        ),
        Deviation(
            LEAVE_TRIGGERS_NO_READ,
            "KEY-13",
            "what a consumer without permits held up is not delivered to others once it has left with nothing "
            "unacknowledged, until something else happens",
        ),
        Deviation(
            BATCH_INDEX_ACKS_OVERWRITTEN,
            "ACK-04",
            "a cumulative acknowledgment that ends within a batch takes back what was acknowledged of the rest of it",
        ),
        Deviation(
            REPLAY_READ_OUTLIVES_CONSUMERS,
            "ACK-12",
            "messages that are being read for replay when the last consumer of a shared subscription leaves are given "
            "to the next one twice",
        ),
        Deviation(
            PARTIAL_BATCH_OFF_BACKLOG,
            "ACK-04",
            "a cumulative acknowledgment that ends within a batch takes the whole of it off the backlog of a "
            "subscription that is not durable",
        ),
        Deviation(
            UNACKED_COUNT_LOWERED_BY_ANY_ACK,
            "ACK-12",
            "what a consumer acknowledges without having it is taken off the number of messages outstanding at it",
        ),
        Deviation(
            TERMINATED_LAST_LEDGER_NOT_SKIPPED,
            "ACK-04",
            "once a terminated topic is loaded anew, skipping stops before its last ledger, and is said to be done",
        ),
        Deviation(
            UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
            "ACK-10",
            "a topic that is moved while a cursor's ledger is being opened, as it is for the first acknowledgment, "
            "loses what was acknowledged meanwhile",
        ),
        Deviation(
            RANGE_LIMIT_IGNORED_ON_UNLOAD,
            "ACK-10",
            "a cursor with more ranges than the metadata store is to take goes there all the same, when its topic is "
            "moved twice with nothing acknowledged in between",
        ),
        Deviation(
            LOST_ACK_FILTERS_REDELIVERY,
            "ACK-11",
            "an acknowledgment that pulsar-client held back when its topic was moved is lost, and the client keeps the "
            "message to itself when it is delivered again",
        ),
        Deviation(
            NACK_BACKOFF_MISSING,
            "ACK-13",
            "pulsar-client asks again for a message after the same delay each time, however often it was failed with",
        ),
        Deviation(
            BATCH_INDEX_ACKS_NOT_RECOVERED,
            "ACK-10",
            "when a topic is moved in good order, what was acknowledged of batches of which something is left is "
            "forgotten",
        ),
        Deviation(
            RESET_MISCOUNTS_BACKLOG,
            "ACK-01",
            "when a subscription is set to an entry, its backlog goes on leaving out those behind it that had been "
            "acknowledged individually, though they are not any more",
        ),
        Deviation(
            FLUSH_RATE_LIMITED,
            "ACK-08",
            "the flush of a dirty cursor is subject to the limit on how often it is persisted, and waits for that too",
        ),
        Deviation(
            OVERLAPPING_BATCH_DROPPED,
            "DEDUP-02",
            "a batch that begins at or below the highest id persisted and ends above it is confirmed as a duplicate; "
            "its new messages are not stored",
        ),
        Deviation(
            PUSHED_ID_IN_PRODUCER_SUCCESS,
            "DEDUP-09",
            "a reopened producer is told the highest id pushed, of a write that is in flight and fails afterwards",
        ),
        Deviation(
            SECOND_RECOVERY_NOT_AWAITED,
            "DEDUP-12",
            "a topic with a policy of its own lets producers in before its deduplication has recovered: they are told "
            "too low an id, and what they send again is stored again",
        ),
        Deviation(
            BATCH_WITHOUT_HIGHEST_ID,
            "DEDUP-03",
            "pulsar-client does not send the highest id of a batch, so the broker counts only the lowest, and stores "
            "what the batch held once more when it comes alone",
        ),
        Deviation(
            SOURCE_RESUMES_FROM_PUSHED_ID,
            "DEDUP-13",
            "a source that goes on from the id that it was told on opening loses a message: that id was of a write in "
            "flight, which failed afterwards",
        ),
        Deviation(
            CLOSE_OVERTAKES_PRODUCER_SUCCESS,
            "DEDUP-13",
            "a producer that is closed while it is being opened is told so first, and only then that it is open; what "
            "it sends is passed over in silence, and pulsar-client waits for ever",
        ),
        Deviation(
            ROLLOVER_REOPENS_CLOSED_LEDGER,
            "DEDUP-13",
            "a topic that is unloaded while it begins a new ledger fails some writes in flight and stores later ones: "
            "the log has a hole, and what is missing in it passes for a duplicate when it is sent again",
        ),
        Deviation(
            SNAPSHOT_POSITION_AHEAD,
            "DEDUP-12",
            "a snapshot that is taken by the timer while a full ledger is being closed stands at the last entry of it "
            "and does not have its id: it is not replayed, and after a recovery the broker does not know it",
        ),
        Deviation(
            DEDUPLICATION_ENABLED_IN_FLIGHT,
            "DEDUP-03",
            "an entry that was on its way when deduplication was switched on raises the highest id persisted, but not "
            "the highest id pushed, which is asked first: sent again, it is stored again",
        ),
    )
}
"""All deviations that the model knows."""


def shown(
    name: str, after: S, known: frozenset[str], because: str, *, exercised: tuple[str, ...] = ()
) -> Allowed[S] | Broken:
    """What to answer where only this deviation explains what was seen: ``after`` if it is known, else what it breaks.

    ``because``: what was seen, in a sentence; ``exercised``: the rules that it put to the test all the same.
    """
    if name not in known:
        return DEVIATIONS[name].broken(because)
    return Allowed(after, exercised, (name,))
