"""The deviations from document 004: Key_Shared and draining hashes."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

RECENTLY_JOINED_RECEIVES_REPLAY = "recently-joined-receives-replay"
DRAINING_REFCOUNT_DOUBLED = "draining-refcount-doubled"
RETURNED_HASH_NOT_IN_CLEARED_TOTAL = "returned-hash-not-in-cleared-total"
NEW_MESSAGE_OVERTAKES_REPLAY = "new-message-overtakes-replay"
PENDING_ACKS_WITHOUT_HASH = "pending-acks-without-hash"
LOOK_AHEAD_SKIPS_REPLAY = "look-ahead-skips-replay"
REPLAY_HASH_KEPT_AFTER_ACK = "replay-hash-kept-after-ack"
LEAVE_TRIGGERS_NO_READ = "leave-triggers-no-read"
REPLAY_HEAD_OF_LINE_BLOCKING = "replay-head-of-line-blocking"
REPLAY_FILTERED_AFTER_LIMIT = "replay-filtered-after-limit"
REWIND_SKIPPED_AFTER_REPLAY_READ = "rewind-skipped-after-replay-read"
REPLAY_READ_OVERTAKES_LEAVER = "replay-read-overtakes-leaver"
PENDING_READ_OUTLIVES_CONSUMERS = "pending-read-outlives-consumers"
GAP_BETWEEN_CLAIMS_ASSIGNED = "gap-between-claims-assigned"
OWN_CLAIMS_OVERLAP = "own-claims-overlap"

CLASSIC = "subscriptionKeySharedUseClassicPersistentImplementation=true"

DEVIATIONS = (
    Deviation(
        name=RECENTLY_JOINED_RECEIVES_REPLAY,
        aliases=("joined-gets-earlier",),
        rule="KEY-01",
        statement="A consumer that joins receives messages of a key from the replay queue, although another consumer has an earlier message of that key unacknowledged.",
        cause="PersistentStickyKeyDispatcherMultipleConsumers (4.0: ...Classic) lets a recently joined consumer receive everything up to the read position of the time it joined. Messages that were read by then, and not dispatched because the consumer of their key had no permits, are in the replay queue below that position. Nothing checks who has other messages of the key.",
        upstream=("apache/pulsar#23307",),
        side="broker",
        releases=("<4.0",),
        switched_on={CLASSIC: ("==4.0.4", "==4.0.8")},
        seen=("3.3.6", "4.0.8 classic"),
        occurrence="Every time, in 13 steps: `pulsar-conformance replay docs/histories/KEY-01-on-3.3.6.json --broker 3.3.6`",
    ),
    Deviation(
        name=DRAINING_REFCOUNT_DOUBLED,
        aliases=("counted-on-top",),
        rule="KEY-11",
        also=("KEY-05",),
        statement="If a draining hash moves back to its consumer and away again, its pending messages are counted twice. The hash never drains, and its messages stay blocked until all consumers leave.",
        cause="DrainingHashesTracker.addEntry raises the count of an existing entry. A hash that moved back leaves the tracker only when a message of it is about to be dispatched (shouldBlockStickyKeyHash). If it moves away before that, PersistentStickyKeyDispatcherMultipleConsumers.registerDrainingHashes adds its pending messages again (4.0.4). Fixed by apache/pulsar#24736, in 4.0.8.",
        upstream=("apache/pulsar#24736",),
        side="broker",
        releases=("==4.0.4",),
        seen=("4.0.4",),
        gone=("4.0.8",),
    ),
    Deviation(
        name=RETURNED_HASH_NOT_IN_CLEARED_TOTAL,
        aliases=("back-not-counted",),
        rule="KEY-11",
        statement="A draining hash that moves back to its consumer stops draining, but the totals of cleared draining hashes omit it.",
        cause="DrainingHashesTracker.shouldBlockStickyKeyHash removes the entry from its map without updating the statistics of the consumer (4.0.4). In 4.0.8 it clears the hash there, too.",
        side="broker",
        releases=("==4.0.4",),
        seen=("4.0.4",),
        gone=("4.0.8",),
    ),
    Deviation(
        name=NEW_MESSAGE_OVERTAKES_REPLAY,
        aliases=("asked-again-passed",),
        rule="KEY-09",
        statement="The replay queue has no hash for a message whose redelivery a consumer requested. So the broker dispatches new messages of that hash before it. With draining hashes, this needs earlier messages in the queue, for a consumer without permits.",
        cause="PersistentDispatcherMultipleConsumers.redeliverUnacknowledgedMessages adds positions to the replay queue without their hashes. Until the message is read once, PersistentStickyKeyDispatcherMultipleConsumers does not find its hash there (containsStickyKeyHashes). If it cannot replay, it reads new messages (isDispatcherStuckOnReplays) and dispatches them. 4.0.8 replays as many of the first positions as there are permits, whichever consumer they belong to; if it can dispatch none of them, it looks ahead.",
        side="broker",
        releases=("<4.0",),
        seldom=("==4.0.8",),
        switched_on={CLASSIC: ("==4.0.4", "==4.0.8")},
        seen=("3.3.6", "4.0.8", "4.0.8 classic"),
    ),
    Deviation(
        name=PENDING_ACKS_WITHOUT_HASH,
        aliases=("left-without-hash",),
        rule="KEY-06",
        also=("KEY-16",),
        statement="Messages of a consumer that left are in the replay queue with hash 0. They are starved while the consumer of hash 0 has no permits, and new messages of their keys are dispatched before them.",
        cause="PersistentStickyKeyDispatcherMultipleConsumersClassic.trySendMessagesToConsumers passes no hashes to Consumer.sendMessages. Since 4.0 that does not compute them itself, so PendingAcksMap keeps 0 for each message (STICKY_KEY_HASH_NOT_SET). PersistentDispatcherMultipleConsumersClassic.removeConsumer adds the messages to the replay queue with that hash. filterOutEntriesWillBeDiscarded omits them if the consumer of hash 0 has no permits. A normal read does not find their real hashes in the queue (containsStickyKeyHashes), so it dispatches new messages (4.0.8). The same happens to messages that were being read when the consumer left.",
        side="broker",
        switched_on={CLASSIC: ("==4.0.4", "==4.0.8")},
        seen=("4.0.8 classic", "4.0.4 classic"),
        occurrence="Every time, in 14 steps.",
    ),
    Deviation(
        name=LOOK_AHEAD_SKIPS_REPLAY,
        aliases=("look-ahead-at-end",),
        rule="KEY-13",
        also=("KEY-04", "KEY-05", "KEY-08", "KEY-16"),
        statement="While the broker dispatches a new message that is blocked, a consumer adds permits, leaves, requests redelivery, or drains a hash. The dispatcher looks ahead: its next read skips the replay queue and waits at the end of the topic.",
        cause="PersistentStickyKeyDispatcherMultipleConsumers.trySendMessagesToConsumers dispatches nothing and sets skipNextReplayToTriggerLookAhead. The read that it schedules 1 to 10 ms later skips the replay queue. Another read, which would replay, is lost in one of two ways. readMoreEntries does nothing during a dispatch (sendInProgress), which lasts from readEntriesComplete to the end of the dispatcher's thread. Or reScheduleReadInMs joins the scheduled read (isRescheduleReadInProgress), as RescheduleReadHandler does after a hash drained. apache/pulsar#26236 looks ahead only if there are more entries. apache/pulsar#24700 remembers a skipped read; it was closed because nobody could reproduce it. The flag is cleared only by a read that finds a consumer with permits: if every such consumer leaves before the scheduled read, the next permit triggers a read that skips the replay queue, without a new message. The classic dispatcher has the same flag (isDispatcherStuckOnReplays), sets it after a normal read, too, and also reads nothing during a dispatch.",
        upstream=("apache/pulsar#26236", "apache/pulsar#24700", "apache/pulsar#23845"),
        side="broker",
        releases=("==4.0.4", "==4.0.8"),
        seldom=(">=2.11,<4.0",),
        seen=("4.0.8", "4.0.4", "4.0.8 classic"),
        occurrence="On 4.0.8 without a failpoint in every tenth play: `pulsar-conformance replay docs/histories/KEY-13-on-4.0.8.json --broker 4.0.8 --known none --times 40`. Nearly every time with the failpoint `read-slow`. Without a new message (`docs/histories/KEY-13-on-4.0.8-permits-left.json`) in 3 of 19 replays with a dispatcher back-off of 60 ms, in 0 of 120 with the default of 1 ms. With the classic dispatcher (`docs/histories/KEY-16-on-4.0.8-classic.json`) in 7 of 12; in 0 of 75 on 3.3.6, which has the same code.",
        shadow=Shadow(
            name="test_slow_reads_alone_excuse_nothing",
            by="small history",
            statement="With slow reads nothing is dispatched, and the broker does not wait for a new entry.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=REPLAY_HASH_KEPT_AFTER_ACK,
        aliases=("acknowledged-blocks-hash",),
        rule="KEY-13",
        statement="If a consumer requests redelivery of a message and acknowledges it before the redelivery, the message keeps blocking its hash. Messages of that hash go to the replay queue, and are dispatched only with the next new message.",
        cause="MessageRedeliveryController.removeAllUpTo removes from the replay queue what mark-delete passed, and forgets the hashes only if the bitmap reports a change. ConcurrentBitmapSortedLongPairSet.removeUpTo (line 97, 4.0.8) uses RoaringBitmap.contains(0, end), which is true only if every entry of the ledger up to there was in the queue. So the hash stays in hashesRefCount, and PersistentStickyKeyDispatcherMultipleConsumers blocks what it reads of it, looks ahead once, and waits at the end of the log. The broker's debug log shows it.",
        side="broker",
        releases=("==4.0.8",),
        seen=("4.0.8",),
    ),
    Deviation(
        name=LEAVE_TRIGGERS_NO_READ,
        aliases=("replay-waits-for-news",),
        rule="KEY-13",
        statement="A consumer without permits leaves with no unacknowledged message. Its blocked messages stay in the replay queue until a consumer adds permits, a message is published, or mark-delete advances.",
        cause="PersistentDispatcherMultipleConsumers.removeConsumer triggers a read only if it added messages of the consumer to the replay queue (notifyAddedToReplay, 4.0.8). Nothing looks at messages that are in that queue already and now belong to other consumers: the pending read waits at the end of the log (subscriptionHavePendingRead). apache/pulsar#23845 describes that state; apache/pulsar#24736, in 4.0.8, fixed one way to it.",
        upstream=("apache/pulsar#23845",),
        side="broker",
        releases=("==4.0.4", "==4.0.8"),
        seen=("4.0.8", "4.0.4"),
    ),
    Deviation(
        name=REPLAY_HEAD_OF_LINE_BLOCKING,
        aliases=("put-aside-in-turn",),
        rule="KEY-13",
        statement="After redelivery requests, or with out-of-order delivery, the dispatcher replays messages in the order of the log. Messages for a consumer without permits block later ones for consumers with permits.",
        cause="PersistentStickyKeyDispatcherMultipleConsumers.ReplayPositionFilter accepts every position with out-of-order delivery, and every position without a hash. A nack or a redelivery request leaves such positions in the replay queue. getMessagesToReplayNow takes as many of the first ones as there are permits in all, whichever consumer they belong to (4.0.8). filterAndGroupEntriesForDispatching returns those without permits and requests a look-ahead, and the next read waits at the end of the log. Related to apache/pulsar#23845.",
        upstream=("apache/pulsar#23845",),
        side="broker",
        releases=("==4.0.4", "==4.0.8"),
        seen=("4.0.8", "4.0.4"),
        occurrence="Nothing was dispatched in 25 seconds, with 30 messages in the replay queue.",
    ),
    Deviation(
        name=REPLAY_FILTERED_AFTER_LIMIT,
        rule="KEY-16",
        statement="The classic dispatcher takes as many messages from the front of the replay queue as there are permits, and then omits those that it cannot dispatch. If these are all, messages after them wait, although their consumers have permits.",
        cause="PersistentDispatcherMultipleConsumers.readMoreEntries (4.0: ...Classic) asks for the first positions of the replay queue (getMessagesToReplayNow), as many as there are permits in all. Only then does PersistentStickyKeyDispatcherMultipleConsumers.filterOutEntriesWillBeDiscarded omit those whose hash no consumer claims, or whose consumer has no permits. If none is left, and a read is pending at the end of the topic, it reads nothing. The debug log says that all entries in the replay queue were filtered out. apache/pulsar#23231, in 4.0, filters before the limit.",
        upstream=("apache/pulsar#22245", "apache/pulsar#23231"),
        side="broker",
        releases=(">=3.0.5,<4.0",),
        switched_on={CLASSIC: ("==4.0.4", "==4.0.8")},
        seen=("3.3.6", "4.0.8 classic"),
        occurrence="Every time, in 9 steps.",
        shadow=Shadow(
            name="test_messages_that_cannot_be_dispatched_crowd_out_later_ones_only_if_they_exhaust_the_permits",
            by="small history",
            statement="With a permit more than messages in the way, or none in the replay queue, the later ones are due.",
        ),
    ),
    Deviation(
        name=REWIND_SKIPPED_AFTER_REPLAY_READ,
        aliases=("rewind-waits-for-news",),
        rule="KEY-13",
        statement="All consumers of a Key_Shared subscription leave during a replay read, and a new one joins. It receives the result of that read, and the other unacknowledged messages only after the next new message.",
        cause="If a read is pending, PersistentDispatcherMultipleConsumers.addConsumer leaves the rewind for the first consumer to the end of that read (shouldRewindBeforeReadingOrReplaying). readEntriesComplete rewinds only after a normal read, not after a replay read. The next read then waits at the end of the log, where the cursor still is (4.0.8).",
        side="broker",
        releases=("==4.0.8",),
        seen=("4.0.8",),
        occurrence="With the failpoints `join-slow` or `leave-slow`.",
    ),
    Deviation(
        name=PENDING_READ_OUTLIVES_CONSUMERS,
        aliases=("read-outlives-consumers",),
        rule="KEY-02",
        statement="If the last consumer of a Key_Shared subscription leaves during a read, the next consumer receives the result of that read besides what is read again. Messages of a key are out of order, and some are dispatched twice.",
        cause="PersistentDispatcherMultipleConsumers.clearComponentsAfterRemovedAllConsumers cancels a read that waits for a new entry (cancelPendingRead), but cannot cancel one that has started. When that completes, trySendMessagesToConsumers rewinds and drops its result only if there is no consumer at that moment. If the next one has joined, it receives the result, although addConsumer has rewound the cursor for it.",
        side="broker",
        releases=("==4.0.4", "==4.0.8", "==3.3.6"),
        seen=("4.0.8", "4.0.4", "3.3.6"),
        occurrence="With the failpoint `read-slow`. On 3.3.6 in 5 of 7 plays: `pulsar-conformance replay docs/histories/KEY-02-on-3.3.6.json --broker 3.3.6` (the history of 4.0.8 in 0 of 5).",
    ),
    Deviation(
        name=REPLAY_READ_OVERTAKES_LEAVER,
        rule="KEY-06",
        also=("KEY-09",),
        statement="A consumer leaves while the broker reads messages from the replay queue that its draining hashes blocked. They are dispatched before the earlier messages of their keys that were unacknowledged at that consumer.",
        cause="PersistentStickyKeyDispatcherMultipleConsumers.canDispatchEntry holds a message back for others of its hash in the replay queue only in a normal read. A replay read that has started when removeConsumer adds the pending messages to the queue, and unblocks their hashes, does not have them (read in the bytecode of 4.0.8).",
        side="broker",
        seldom=("==4.0.8",),
        seen=("4.0.8",),
        occurrence="With the failpoint `join-slow`, in two of five checks with `keys-races`. In 1 of 40 replays of one history, in 1 of 4 of the other.",
        shadow=Shadow(
            name="test_what_was_read_for_replay_overtakes_only_a_consumer_that_has_just_left",
            by="small history",
            statement="A message is dispatched before those of a consumer that left earlier, or one that was published after it left.",
        ),
    ),
    Deviation(
        name=GAP_BETWEEN_CLAIMS_ASSIGNED,
        rule="KEY-15",
        statement="A STICKY consumer that claims several hash ranges receives the messages of hashes between them as well, which no consumer claims.",
        cause="HashRangeExclusiveStickyKeyConsumerSelector.rangeMap has only the bounds of ranges, each with its consumer. select takes the nearest bound below a hash and the nearest one above it. If both belong to one consumer, it returns that consumer, whether or not they are the bounds of one range. Fixed by apache/pulsar#24730, in 4.0.7 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.0 to 4.0.7).",
        upstream=("apache/pulsar#24730",),
        side="broker",
        releases=(">=2.6.0,<3.0.14", ">=3.1,<=3.3.6", ">=4.0.0,<=4.0.6"),
        seen=("3.3.6",),
        gone=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_gap_in_which_another_consumer_has_a_claim_is_nobodys",
            by="small history",
            statement="A consumer receives a hash between its claims, although another consumer claims a range between them.",
        ),
    ),
    Deviation(
        name=OWN_CLAIMS_OVERLAP,
        rule="KEY-15",
        statement="A STICKY consumer whose own hash ranges overlap is let in.",
        cause="HashRangeExclusiveStickyKeyConsumerSelector.validateKeySharedMeta compares the ranges with those of other consumers only. pulsar-client refuses such ranges itself. Fixed by apache/pulsar#24730, in 4.0.7 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.0 to 4.0.7).",
        upstream=("apache/pulsar#24730",),
        side="broker",
        releases=(">=2.6.0,<3.0.14", ">=3.1,<=3.3.6", ">=4.0.0,<=4.0.6"),
        seen=("3.3.6",),
        gone=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_ranges_of_another_consumer_are_refused",
            by="small history",
            statement="A consumer is let in that claims a part of another consumer's range.",
        ),
    ),
)
