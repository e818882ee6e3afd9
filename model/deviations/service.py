"""The deviations from the family SERVE: what a broker owes its clients."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

DROPPED_PENDING_ACKS_STILL_COUNTED = "dropped-pending-acks-still-counted"
SESSION_RECREATED_IN_A_LOOP = "session-recreated-in-a-loop"
RECONNECT_OVERFLOWS_STACK = "reconnect-overflows-stack"
UNLOAD_RACES_WITH_ROLLOVER = "unload-races-with-rollover"
TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER = "terminated-topic-without-current-ledger"
SKIP_PAST_TERMINATED_END_LOOPS = "skip-past-terminated-end-loops"
KEY_SHARED_POLICIES_MIXED = "key-shared-policies-mixed"
CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS = "chunk-without-permits-blocks-others"
REDELIVERY_REQUEST_UNBLOCKS = "redelivery-request-unblocks-consumer"
PARTIAL_ACK_LEAVES_CONSUMER_BLOCKED = "partial-ack-leaves-consumer-blocked"
SKIPPED_PARTS_COUNTED_OFF_AGAIN = "skipped-parts-counted-off-again"
EXPIRY_STOPS_AT_ACKNOWLEDGED = "expiry-stops-at-acknowledged"
UNREAD_MARKERS_COUNT = "unread-markers-count"
FORMER_OWNER_PERSISTS_CURSOR = "former-owner-persists-cursor"
TERMINATION_RACES_WITH_ROLLOVER = "termination-races-with-rollover"

EXPIRED_SESSION_FAILS_REQUESTS = "expired-session-fails-requests"
ACK_BELOW_MARK_DELETE_REFUSED = "ack-below-mark-delete-refused"
PENDING_ACKS_OUTLIVE_LAST_CONSUMER = "pending-acks-outlive-last-consumer"

DEVIATIONS = (
    Deviation(
        name=ACK_BELOW_MARK_DELETE_REFUSED,
        rule="SERVE-01",
        statement="A cumulative ack at or below mark-delete is refused with an internal error (MarkDeletingMarkedPosition). It has no effect, as it should.",
        cause="ManagedCursorImpl.setAcknowledgedPosition throws MarkDeletingMarkedPosition, with the error's own text: Mark deleting an already mark-deleted position. Earlier releases confirm such an ack.",
        side="broker",
        releases=("==5.0.0",),
        seen=("5.0.0-M1",),
        gone=("4.2.4", "4.0.8"),
        occurrence="In 5 of 5 replays.",
        shadow=Shadow(
            name="test_only_a_cumulative_ack_below_mark_delete_is_refused_by_a_deviation",
            by="small history",
            statement="An individual ack is refused so, or a cumulative ack with another internal error.",
        ),
    ),
    Deviation(
        name=PENDING_ACKS_OUTLIVE_LAST_CONSUMER,
        rule="SERVE-04",
        statement="The last consumer of a Shared or Key_Shared subscription leaves before the broker has persisted its last individual acks. Their messages are subtracted from the subscription's unacknowledged messages twice. The count stays too low, even below zero, until the topic is unloaded.",
        cause="Since apache/pulsar#25528, Consumer.individualAck lowers the counts only once the cursor has persisted the ack (applyPendingAckCompletions). PersistentDispatcherMultipleConsumers.removeConsumer subtracts all that the consumer still counts, and removes its pending acks (PendingAcksMap.forEachAndClose) only if other consumers are left. After the last one, the completed ack finds its message there, and addAndGetUnAckedMsgs subtracts it again. If a command has several parts of an incomplete batch, pulsar-client's acks each contain all of them, and computeAckedCount compares each with the cursor before that command: k parts are subtracted k times. The classic dispatcher never removes them (read in the sources of 5.0.0-M1). 4.0.8 and 4.2.4 lower the counts before they persist the ack. apache/pulsar#26663 proposes a fix.",
        upstream=("apache/pulsar#25528", "apache/pulsar#26663"),
        side="broker",
        releases=("==5.0.0",),
        seen=("5.0.0-M1",),
        gone=("4.2.4", "4.0.8"),
        occurrence="In 5 of 5 replays, in 9 steps, while the first ack opens the cursor's ledger; in 0 of 5 each on 4.2.4 and 4.0.8.",
        shadow=Shadow(
            name="test_acks_are_subtracted_twice_only_after_the_last_consumer_left_with_them",
            by="small history",
            statement="The count is lower by more than the messages of these acks, although another consumer is left, although an earlier read showed the acks, or after an unload.",
        ),
    ),
    Deviation(
        name=EXPIRED_SESSION_FAILS_REQUESTS,
        rule="SERVE-01",
        statement="After the session of a broker in the metadata store has expired, and until it has another one, admin requests are answered with an internal error, some of which name the expired session, or with 412 (Can't find owner).",
        cause="The metadata store's client fails all requests of the expired session, with SessionExpired (ZKMetadataStore) or with BKException.ZKException. The broker passes these failures on as internal errors, instead of 503 or of waiting for its next session. Those that it does not handle are answered by the web server (Request failed).",
        side="broker",
        releases=(">=2.11.0,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0"),
        occurrence="In 15 of 16 replays on these releases. Requests that need the owner of a topic, such as trimming, fail for about four seconds with the shipped session timeout.",
        shadow=Shadow(
            name="test_an_expired_session_explains_no_other_error_and_none_later",
            by="small history",
            statement="An admin request is answered with another internal error, or with this one although no session expired.",
        ),
    ),
    Deviation(
        name=TERMINATION_RACES_WITH_ROLLOVER,
        rule="SERVE-01",
        statement="A topic is terminated while its last ledger, which is full, is being replaced. The termination is answered with an internal error (BadVersionException), again and again, until a client opens the topic; or it succeeds and the managed ledger is fenced soon after. Then the next client is refused once, because the managed ledger is fenced.",
        cause="ManagedLedgerImpl.asyncTerminate writes the list of ledgers to the metadata store without metadataMutex, with which a rollover writes it. The later of the two writes fails with BadVersion, on which handleBadVersion fences the managed ledger. The broker closes the topic and loads it again only after a client was refused.",
        upstream=("apache/pulsar#25858",),
        side="broker",
        releases=(">=3.3.6,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6"),
        gone=("2.11.0",),
        occurrence="18 of 40 terminations right after the entry that fills a ledger on 4.0.8, 13 of 40 on 3.3.6, none of 40 on 2.11.0. Of a broker that has run for some minutes 3 of 75; with the failpoint `ledger-list-slow`, which delays the write of the rollover, each time on 3.3.6, 4.0.8 and 4.2.4, and never on 2.11.0.",
        shadow=Shadow(
            name="test_only_a_rollover_excuses_a_fenced_managed_ledger",
            by="small history",
            statement="A topic whose last ledger has room is fenced when it is terminated, or a client of such a topic is refused for good.",
        ),
    ),
    Deviation(
        name=UNLOAD_RACES_WITH_ROLLOVER,
        rule="SERVE-01",
        statement="A topic is unloaded while its last ledger, which is full, is being replaced. The next request that loads the topic is answered once with an internal error (BadVersionException).",
        cause="ManagedLedgerImpl.createComplete does not look whether the managed ledger was closed in the meantime. It writes the list of ledgers to the metadata store while the topic is loaded again, which writes that list, too (2.11.0; read in 2.10.1 as well). 3.0.7 and later releases delete the new ledger instead.",
        side="broker",
        releases=(">=2.10.1,<3.0",),
        seen=("2.11.0",),
        gone=("3.3.6", "4.0.8"),
        occurrence="In 1 of 18 plays on 2.11.0.",
        shadow=Shadow(
            name="test_only_a_rollover_excuses_a_topic_that_is_not_loaded_again",
            by="small history",
            statement="A topic that is loaded again fails with BadVersion although its last ledger has room, or for good, or with another error.",
        ),
    ),
    Deviation(
        name=FORMER_OWNER_PERSISTS_CURSOR,
        rule="SERVE-06",
        statement="A frozen broker loses a topic, and continues. It persists acks that it had not persisted before, or receives only now. The next owner recovers the cursor from them. If the present owner has persisted nothing of that cursor yet, its first ack afterwards is lost if it is killed.",
        cause="Recovery writes nothing to the cursor's node in the metadata store. So the former owner still knows its version, and ManagedCursorImpl.persistPositionMetaStore succeeds with the state in its memory: for the new ledger if the cursor has none, or because a write to its fenced ledger failed. Once the present owner has opened a ledger of its own, the version differs (BadVersion). If it does so later, its own write fails with BadVersion: the pending mark-deletes fail, and it knows the new version only for the next one. A graceful close persists everything. Read in 4.0.8.",
        side="broker",
        releases=(">=3.3.6,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_former_owner_persists_no_ack_that_nobody_sent",
            by="small history",
            statement="The next owner recovers an ack that no consumer sent to the former owner, or the former owner's acks although the present one has a ledger for the cursor.",
        ),
    ),
    Deviation(
        name=UNREAD_MARKERS_COUNT,
        rule="SERVE-04",
        statement="On a topic with replicated subscriptions, a marker that no dispatcher has read yet counts as an unacknowledged message: in the backlog, which grows with every snapshot while there is no consumer, in peeks, which return markers, and in skips, which skip fewer messages.",
        cause="Only a dispatcher that reads a marker acknowledges it (AbstractBaseDispatcher.filterEntriesForConsumer). ManagedCursorImpl counts entries without looking at them (getNumberOfEntriesInBacklog, asyncGetNthEntry, asyncSkipEntries).",
        upstream=("apache/pulsar#6437",),
        side="broker",
        releases=(">=2.10,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0"),
        shadow=Shadow(
            name="test_the_backlog_has_no_more_than_the_markers_after_mark_delete",
            by="small history",
            statement="The backlog has more entries than there are markers and unacknowledged messages, or less than there are unacknowledged messages.",
        ),
        occurrence="Every time.",
    ),
    Deviation(
        name=SESSION_RECREATED_IN_A_LOOP,
        rule="SERVE-02",
        also=("ACK-06",),
        statement="A broker that lost its session in ZooKeeper takes its next sessions for lost as well. It is not registered again for long, or takes itself for the owner of topics that others have taken over. It unloads none of them, and its full ledgers stay open.",
        cause="When the session expires, the ZooKeeper client creates another one. Requests that fail with SessionExpired for the old session make it discard the new one again. The metadata store receives SessionLost for each, and no SessionReestablished after the last. Then locks are not revalidated, and managed ledgers do not roll over, as the metadata service counts as unavailable.",
        upstream=("apache/pulsar#23015",),
        side="broker",
        seldom=("==4.0.8",),
        seen=("4.0.8",),
        occurrence="About one in ten brokers that were frozen and thawed on a machine with a load of 25 on two cores; two of some fifty with a load of 5.",
        has_history=False,
        shadow=Shadow(
            name="test_a_thawed_broker_must_answer_once_it_is_registered",
            by="small history",
            statement="A thawed broker is registered again, but does not answer, or a broker that was not frozen is not registered.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=RECONNECT_OVERFLOWS_STACK,
        rule="SERVE-01",
        statement="A producer whose connection ended opens again before the broker has handled that. It is refused with an internal error (StackOverflowError).",
        cause="AbstractTopic.tryOverwriteOldProducer asks ServerCnx.checkConnectionLiveness whether the producer that has the name is still connected. If its channel is inactive, the answer is there at once, and internalAddProducer is called again in the same call. channelInactive, which removes the old producer, runs in another thread: until then the two methods call each other until the stack is full.",
        upstream=("apache/pulsar#24934", "apache/pulsar#21220"),
        side="broker",
        seldom=("==3.3.6", "==4.0.8"),
        seen=("4.0.8", "3.3.6"),
        occurrence="once on 4.0.8, in a run at a load of 25 on two cores; on both releases in 7 of 10 reconnects with `channelInactive` held for 0.3 s after it has cleared `isActive`",
        has_history=False,
        shadow=Shadow(
            name="test_a_stack_overflow_is_a_deviation_only_where_a_producer_comes_back_after_its_connection_ended",
            by="small history",
            statement="A producer is refused with StackOverflowError after its topic was reloaded, or although no connection of its name ended.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER,
        aliases=("stats-of-terminated-topic-fail",),
        rule="SERVE-01",
        also=("ACK-12", "ACK-13"),
        statement="After a terminated topic is reloaded, a request for its stats or for one of its messages is answered with an internal error (500). Once a message of its last ledger is due for redelivery, its Shared or Key_Shared subscription dispatches nothing more.",
        cause='The managed ledger of a terminated topic has no current ledger once it is reloaded. What reads the id of that ledger fails: `Cannot invoke "org.apache.bookkeeper.client.LedgerHandle.getId()" because "currentLedger" is null`. ManagedLedgerImpl.asyncReadEntry does so for a peek and for each entry of a replay read (2.11.0, line 1917), and leaves the dispatcher waiting for that read. Which method of the stats does so was not looked up. Releases from 3.3.6 and 4.0.4 on make the last ledger the current one (ManagedLedgerImpl.initialize). Read in 2.10.1, 2.10.5, 2.11.0, 3.0.7 and 3.3.5, and in the byte code of 2.5.1 to 2.9.1, 3.2.3 and 4.0.1.',
        upstream=("apache/pulsar#24058",),
        side="broker",
        releases=("<3.3.6", ">=4.0,<4.0.4"),
        seen=("3.3.5", "2.11.0"),
        gone=("3.3.6", "4.0.4", "4.0.8"),
        shadow=Shadow(
            name="test_a_missing_current_ledger_fails_only_requests_for_stats_and_messages_of_a_terminated_topic",
            by="small history",
            statement="A request for the stats or for a message fails before the topic is terminated and reloaded, or with another error, or another request fails. A message is not dispatched before any of the last ledger is due for redelivery.",
        ),
    ),
    Deviation(
        name=SKIP_PAST_TERMINATED_END_LOOPS,
        rule="SERVE-01",
        statement="After a terminated topic is reloaded, a skip of more messages than it has left is never answered. A thread of the broker's web server computes from then on, until the broker is restarted.",
        cause="ManagedLedgerImpl.getPositionAfterN advances from ledger to ledger until the number of entries is reached. Without a current ledger to stop at, as after the reload of a terminated topic, it starts over with the last ledger each time (a stack of 2.10.1 shows it). apache/pulsar#17971 corrects the ledger that follows the last one.",
        upstream=("apache/pulsar#17967", "apache/pulsar#17971"),
        side="broker",
        releases=(">=2.10.1,<2.10.3",),
        seen=("2.10.1",),
        gone=("2.9.1", "2.10.5", "2.11.0"),
        occurrence="In 4 of 4 replays on 2.10.1, in none of 2 on each of the others.",
        shadow=Shadow(
            name="test_only_a_skip_of_a_topic_that_was_terminated_and_reloaded_is_not_answered_by_a_deviation",
            by="small history",
            statement="A skip is not answered on a topic that was not terminated or not reloaded, or another request is not answered.",
        ),
    ),
    Deviation(
        name=DROPPED_PENDING_ACKS_STILL_COUNTED,
        rule="SERVE-04",
        also=("SERVE-05",),
        statement="If an administrator skips or expires messages that a consumer has, and the consumer acknowledges them afterwards, it still has them in its count of unacknowledged messages. The count never falls again, until the consumer leaves.",
        cause="When mark-delete has moved, PersistentDispatcherMultipleConsumers.readMoreEntries calls PendingAcksMap.removeAllUpTo for each consumer, which does not lower unackedMessages. The later ack finds no pending ack (Consumer.removePendingAcks), so it does not lower it either (read in the bytecode of 4.0.8). 3.3.6 removes nothing there.",
        side="broker",
        releases=(">=4.0.1,<=4.0.8",),
        seen=("4.0.8", "4.0.1", "4.0.6"),
        gone=("3.3.6",),
        shadow=Shadow(
            name="test_a_consumer_that_acknowledges_once_more_is_counted_exactly_again",
            by="small history",
            statement="The count has more than the messages that were acknowledged twice, or less than those that are unacknowledged.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=KEY_SHARED_POLICIES_MIXED,
        rule="SERVE-05",
        statement="A Key_Shared consumer whose policy is not that of the connected consumers (STICKY or AUTO_SPLIT, out-of-order delivery) is accepted, and treated as if it had their policy.",
        cause="PersistentSubscription.addConsumer compares only the subscription type with that of the dispatcher while consumers are connected. The dispatcher has the policy of the first consumer: one for AUTO_SPLIT assigns ranges of its own to a consumer that claims others. Fixed by apache/pulsar#23449, in 4.0.1 (read in the sources of 2.6.0, 2.10.1, 2.11.0, 3.3.6, 4.0.0, 4.0.1, 4.0.4 and 4.0.6).",
        upstream=("apache/pulsar#23449", "apache/pulsar#23272"),
        side="broker",
        releases=(">=2.6.0,<4.0.1",),
        seen=("3.3.6",),
        gone=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_consumer_of_another_type_is_refused_although_policies_are_mixed",
            by="small history",
            statement="A Shared consumer is accepted beside a Key_Shared one.",
        ),
    ),
    Deviation(
        name=CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS,
        rule="SERVE-03",
        statement="On a Shared subscription, a chunk whose consumer has no permits keeps the dispatcher from sending anything new to the other consumers, although they have permits. The subscription recovers when that consumer adds permits.",
        cause="PersistentDispatcherMultipleConsumers puts a chunk back into the replay queue when the consumer that has the message has no permits, and replays that queue before it reads anything new. While another consumer has permits, it reads the chunk again and again (4.0.8, sendChunkedMessagesToConsumers).",
        side="broker",
        releases=(">=2.5.1,<=5.0.0",),
        shadow=Shadow(
            name="test_another_starvation_of_a_shared_subscription_has_no_known_reason",
            by="small history",
            statement="A consumer is starved although no consumer has the first chunk of any message that is left, or no chunk of that message is left.",
        ),
        seen=("4.0.8", "3.3.6", "2.7.4", "2.5.1", "5.0.0-M1"),
    ),
    Deviation(
        name=REDELIVERY_REQUEST_UNBLOCKS,
        rule="SERVE-05",
        also=("SERVE-03",),
        statement="A consumer that is blocked at its limit requests redelivery of messages that are not pending at it. The broker no longer counts it as blocked: it sends one message too many, or, without permits that it had held back, nothing, while the stats say that the consumer is not blocked.",
        cause="Consumer.redeliverUnacknowledgedMessages sets blockedConsumerOnUnackedMsgs to false whatever it took from the pending acks, and grants the permits that came while the consumer was blocked. A dispatch sends at least one message to a consumer with permits (4.0.8).",
        side="broker",
        releases=("==3.3.6", "==4.0.8"),
        seen=("4.0.8", "3.3.6"),
        occurrence="Every time on 4.0.8; in 3 of 10 replays on 3.3.6.",
        shadow=Shadow(
            name="test_a_consumer_at_its_limit_is_unblocked_only_by_a_redelivery_request_and_for_one_message",
            by="small history",
            statement="A consumer at its limit is sent two messages, or one without a redelivery request, or starves without one.",
        ),
    ),
    Deviation(
        name=PARTIAL_ACK_LEAVES_CONSUMER_BLOCKED,
        rule="SERVE-05",
        statement="A consumer that is blocked at its limit stays blocked after it acknowledged parts of batches, even if few of its messages are left, until it acknowledges a whole batch or message.",
        cause="Consumer.individualAckNormal lowers the count for a part of a batch. Whether the consumer can be unblocked is looked at only when an entry is removed from its pending acks (4.0.8).",
        side="broker",
        releases=("==4.0.8",),
        seen=("4.0.8",),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_consumer_stays_blocked_only_after_an_ack_of_parts",
            by="small history",
            statement="A consumer stays blocked after an ack of a whole message or of the rest of a batch.",
        ),
    ),
    Deviation(
        name=SKIPPED_PARTS_COUNTED_OFF_AGAIN,
        rule="SERVE-04",
        statement="If an administrator skips the rest of a batch that a consumer has acknowledged in part, or the consumer acknowledges the rest itself, and the consumer then acknowledges a part of it once more, or requests redelivery of the rest, the earlier parts are subtracted from its unacknowledged messages a second time. The count is too low, even below zero.",
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
        name=EXPIRY_STOPS_AT_ACKNOWLEDGED,
        rule="SERVE-04",
        statement="If all messages from some position to the end of the topic are acknowledged, expiring messages up to a position may expire fewer of them than the request asked for, often only the first one.",
        cause="OpFindNewest searches for the position in halves. Before it reads an entry, ManagedCursorImpl.hasMoreEntries counts the unacknowledged entries from there on. If there are none, the search takes this for the end of the topic, and returns what it found so far. A seek by time searches without the cursor since apache/pulsar#20568, an expiry does not. Releases with apache/pulsar#24622 search only in the open ledger. Read in 2.6.0, 2.11.0, 3.3.6, 4.0.8 and 4.2.4.",
        upstream=("apache/pulsar#20368",),
        side="broker",
        releases=(">=2.11,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_an_expiry_ends_early_only_where_everything_behind_is_acknowledged",
            by="small history",
            statement="Messages do not expire although the last one of the topic is unacknowledged, or fewer expire than the search finds.",
        ),
    ),
)
