"""The deviations from document 000: deduplication."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

OVERLAPPING_BATCH_DROPPED = "overlapping-batch-dropped"
PUSHED_ID_IN_PRODUCER_SUCCESS = "pushed-id-in-producer-success"
SOURCE_RESUMES_FROM_PUSHED_ID = "source-resumes-from-pushed-id"
BATCH_WITHOUT_HIGHEST_ID = "batch-without-highest-id"
SECOND_RECOVERY_NOT_AWAITED = "second-recovery-not-awaited"
SNAPSHOT_POSITION_AHEAD = "snapshot-position-ahead"
DEDUPLICATION_ENABLED_IN_FLIGHT = "deduplication-enabled-in-flight"
CLOSE_OVERTAKES_PRODUCER_SUCCESS = "close-overtakes-producer-success"
ROLLOVER_REOPENS_CLOSED_LEDGER = "rollover-reopens-closed-ledger"
LAST_SEQUENCE_ID_FALLS = "last-sequence-id-falls"
CONSECUTIVE_BATCH_ASSUMED = "consecutive-batch-assumed"
MARKER_PRODUCER_IN_SNAPSHOT = "marker-producer-in-snapshot"
TOPIC_POLICY_APPLIED_LATE = "topic-policy-applied-late"
TOPIC_POLICY_AWAITS_RELOAD = "topic-policy-awaits-reload"
UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY = "unused-subscription-hides-topic-policy"
TIMER_FAILS_WITHOUT_DEDUPLICATION = "timer-fails-without-deduplication"
DEDUPLICATION_OFF_KEEPS_SNAPSHOT = "deduplication-off-keeps-snapshot"
EARLIER_SNAPSHOT_SHOWN = "earlier-snapshot-shown"

DEVIATIONS = (
    Deviation(
        name=TIMER_FAILS_WITHOUT_DEDUPLICATION,
        rule="DEDUP-11a",
        statement="If the broker has a topic without deduplication, the timer takes no snapshot of the topics that come after it in the broker's list of topics. Those have only the snapshots that are due by the number of entries.",
        cause="MessageDeduplication.takeSnapshot, which the timer calls for every topic, asks for the mark-delete position of a cursor that a topic without deduplication does not have (line 495, 2.11.0). The NullPointerException ends the round of the timer (BrokerService, line 541). In 3.3.6 takeSnapshot returns at once if deduplication is not enabled.",
        side="broker",
        releases=(">=2.7.0,<=3.0.0",),
        seen=("2.11.0", "2.10.5", "2.9.1", "2.8.2", "3.0.0", "2.8.1", "2.7.4", "2.7.0", "2.7.2"),
        gone=("3.3.6", "4.0.8"),
        occurrence="In 4 of 4 replays of 8 steps, with the exception in the broker's log. 2.10.1 has the same code.",
        shadow=Shadow(
            name="test_a_timer_that_fails_excuses_no_snapshot_that_is_due_by_entries",
            by="small history",
            statement="No snapshot is taken after the number of entries that it is due after.",
        ),
    ),
    Deviation(
        name=TOPIC_POLICY_APPLIED_LATE,
        rule="DEDUP-01",
        also=("DEDUP-02",),
        statement="After a restart, a topic that switches deduplication off by its own policy, in a namespace that switches it on, is deduplicated until the broker has read the policy. A topic that switches it on is not.",
        cause="The broker reads the policies of a namespace's topics from its topic __change_events once it has loaded a topic of that namespace, and accepts producers of that topic before it has read them. Its log says that deduplication is enabled, and nothing about the policy yet (2.11.0).",
        side="broker",
        releases=("==2.11.0",),
        seen=("2.11.0",),
        gone=("3.3.6", "4.0.8"),
        occurrence="In 6 of 6 replays of 6 steps.",
        shadow=Shadow(
            name="test_a_policy_that_is_applied_late_excuses_only_the_first_two_seconds_after_a_restart",
            by="small history",
            statement="A message is refused or confirmed as a duplicate although no earlier one had its sequence id, after an unload without a restart, or more than two seconds after the load.",
        ),
    ),
    Deviation(
        name=TOPIC_POLICY_AWAITS_RELOAD,
        rule="DEDUP-01",
        statement="A topic's own policy switches its deduplication on or off only when the topic is loaded again.",
        cause="PersistentTopic.onUpdate, which is called when the policies of the topic change, does not call checkDeduplicationStatus (2.7.4, line 2732); 2.8.2 and later releases do.",
        side="broker",
        releases=(">=2.7.0,<2.10.0",),
        seen=("2.7.4", "2.9.0", "2.9.1", "2.8.1", "2.8.2", "2.7.0", "2.7.1", "2.7.2"),
        gone=("2.10.1", "4.0.8"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_policy_that_awaits_a_reload_excuses_no_other_policy_and_no_status_after_the_reload",
            by="small history",
            statement="A topic does not follow the policy of its namespace or the broker's setting, or not even after it was loaded again.",
        ),
    ),
    Deviation(
        name=UNUSED_SUBSCRIPTION_HIDES_TOPIC_POLICY,
        rule="DEDUP-01",
        statement="While a topic has a subscription that no consumer has used, its own policy switches its deduplication on or off only when the topic is loaded again.",
        cause="PersistentTopic.onUpdate, which is called when the policies of the topic change, calls updateRateLimiter of the dispatcher of each subscription. A subscription without a consumer has none, and the NullPointerException comes before checkDeduplicationStatus (2.7.4, 2.8.2 and 2.9.1). 2.10.1 looks whether there is a dispatcher.",
        side="broker",
        releases=(">=2.7.4,<=2.9.1",),
        seen=("2.9.1", "2.8.2"),
        gone=("2.10.1", "4.0.8"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_an_unused_subscription_hides_only_the_topic_s_own_policy",
            by="small history",
            statement="A topic whose subscriptions all have consumers does not follow its own policy, or one does not follow another policy.",
        ),
    ),
    Deviation(
        name=DEDUPLICATION_OFF_KEEPS_SNAPSHOT,
        rule="DEDUP-09",
        also=("DEDUP-02", "DEDUP-10"),
        statement="A topic that is not loaded when deduplication is switched off keeps its snapshot. Once deduplication is on again, all that was stored in the meantime counts, and new messages with these sequence ids are dropped.",
        cause="MessageDeduplication.checkStatus deletes the cursor with the snapshot only if the status is Enabled (line 204, 2.6.0), but a topic that was just loaded has the status Disabled. Until then the cursor also keeps the topic's messages. 2.7.4 has a status Initialized, with which it deletes the cursor.",
        side="broker",
        releases=(">=2.5.1,<=2.6.0",),
        seen=("2.6.0",),
        gone=("2.7.4", "4.0.8"),
        occurrence="Every time; 2.5.1 has the same code.",
        shadow=Shadow(
            name="test_a_topic_that_was_loaded_when_deduplication_was_switched_off_keeps_no_snapshot",
            by="small history",
            statement="A topic whose producer was open when deduplication was switched off has a snapshot, or counts what was stored since.",
        ),
    ),
    Deviation(
        name=EARLIER_SNAPSHOT_SHOWN,
        rule="DEDUP-10",
        statement="If a snapshot is taken while the one before it waits for the ledger of the cursor, the stats show the ids of the earlier one at the position of the later one.",
        cause="ManagedCursorImpl.asyncMarkDelete sets lastMarkDeleteEntry without writing it if the rate is limited (line 1588, 2.6.0). The earlier mark-delete, which waited for a new ledger, then replaces it (internalMarkDelete, line 1641). The position in the stats is not that of lastMarkDeleteEntry. What is stored has its own position, so a recovery replays what it lacks. In 2.10.1 a later entry stays.",
        side="broker",
        releases=(">=2.5.1,<=2.9.0",),
        seen=(
            "2.6.0",
            "2.8.1",
            "2.9.0",
        ),
        gone=("2.10.1", "4.0.8"),
        occurrence="In 4 of 10 replays. 2.5.1 and 2.7.4 have the same code.",
        shadow=Shadow(
            name="test_a_snapshot_with_ids_from_before_the_reload_or_of_no_earlier_snapshot_breaks_the_rule",
            by="small history",
            statement="The ids in a snapshot are older than the last load of the topic, or not those of an earlier snapshot.",
        ),
    ),
    Deviation(
        name=MARKER_PRODUCER_IN_SNAPSHOT,
        rule="DEDUP-10",
        statement="After a topic with replicated subscriptions was reloaded, the snapshot has `pulsar.marker`, the name in the markers of the cluster, as if it were a producer. It takes the place of one, and may displace a producer of users.",
        cause="MessageDeduplication.replayCursor takes the producer name and sequence id of every entry (4.0.8, lines 251 to 258). While messages are published, isDuplicate and recordMessagePersisted leave markers out (lines 284 and 488). 2.10.1, 2.11.0 and 3.3.6 have the same code. The change in apache/pulsar#25860 keeps it.",
        side="broker",
        releases=(">=2.10,<=4.2.4",),
        seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0"),
        shadow=Shadow(
            name="test_only_the_name_in_markers_may_be_in_a_snapshot_and_only_after_a_reload",
            by="small history",
            statement="Before a reload the snapshot has the name in markers, or has another sequence id for it, or has another producer without entries.",
        ),
        occurrence="After every reload with a marker after the last snapshot: in 13 of 20 replays on four releases.",
    ),
    Deviation(
        name=OVERLAPPING_BATCH_DROPPED,
        rule="DEDUP-02",
        statement="A batch that starts with a stored message is confirmed and dropped, including its new messages.",
        cause="MessageDeduplication compares only the lowest id of a batch (4.0.8, lines 455 and 468). Upstream changed the Java client instead, which no longer builds such batches (apache/pulsar#6326). Other clients still do (apache/pulsar-client-go#1395). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        upstream=("apache/pulsar#6273",),
        side="broker",
        releases=(">=2.5.1,<=5.0.0",),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0", "2.5.1"),
        shadow=Shadow(name="unknown-stored", statement="A message whose duplicate status is unknown is stored."),
    ),
    Deviation(
        name=PUSHED_ID_IN_PRODUCER_SUCCESS,
        aliases=("pending-id-told",),
        rule="DEDUP-09",
        statement="A reopened producer gets the sequence id of a write in flight as its last sequence id. The write fails afterwards, or is lost with its topic.",
        cause="MessageDeduplication.getLastPublishedSequenceId returns the highest id pushed, not the highest id persisted (4.0.8, lines 657 and 658). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.5.1,<=5.0.0",),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.5.1"),
        shadow=Shadow(name="no-reset-after-failure", statement="A failed write does not reset the highest id pushed."),
    ),
    Deviation(
        name=SOURCE_RESUMES_FROM_PUSHED_ID,
        aliases=("pending-id-trusted",),
        rule="DEDUP-13",
        statement="A source that resumes from the last sequence id in ProducerSuccess loses a message, because the write with that id failed afterwards.",
        cause="The consequence of pushed-id-in-producer-success. A source that resumes from its own last confirmed message is safe.",
        side="broker",
        releases=(">=2.10.1,<=5.0.0",),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1"),
        shadow=Shadow(
            name="test_a_source_loses_no_entry_before_a_stored_one_that_the_same_last_sequence_id_covers",
            by="small history",
            statement="A source loses a message, but not a later one that the same last sequence id covers.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=BATCH_WITHOUT_HIGHEST_ID,
        aliases=("batch-end-unsent",),
        rule="DEDUP-03",
        statement="pulsar-client sends no highest sequence id with a batch. The broker counts only the lowest, and stores the other messages again if they are sent again individually.",
        cause="The client sets highest_sequence_id neither in CommandSend nor in the metadata of the batch. The broker then takes the lowest id instead (4.0.8: MessageDeduplication, lines 432 and 533, and 253 in the replay).",
        side="client",
        clients={"official": "<=3.13.0"},
        seen=("pulsar-client 3.13.0", "pulsar-client 3.12.0"),
        shadow=Shadow(name="strict-less-than", statement="A message with the highest id persisted is stored again."),
    ),
    Deviation(
        name=SECOND_RECOVERY_NOT_AWAITED,
        aliases=("recovery-race",),
        rule="DEDUP-12",
        statement="A topic with its own policy accepts producers before its deduplication state has recovered. Messages that they send again are stored again.",
        cause="Nothing sets the status to Recovering, so MessageDeduplication.checkStatus starts a second replay with the same cursor when a topic with policies is loaded. Producers wait for only one of the two (4.0.8, lines 156 to 217). In 4.0.8 the second replay finds the cursor at its end and completes, while another thread still applies what the first one read (ManagedLedgerReplayTask, in 4.0.6 but not in 4.0.0). Before that, both replays end on one thread, but the one that nobody waits for may complete last and restore older ids for a moment. 5.0.0-M1 sets the status.",
        upstream=("apache/pulsar#25954",),
        side="broker",
        releases=(">=3.3.6,<=4.2.4", ">=2.10.1,<=2.11.0"),
        seen=("4.0.8", "3.3.6", "2.10.1", "2.11.0"),
        shadow=Shadow(
            name="test_a_recovery_that_is_over_excuses_no_missing_sequence_id",
            by="small history",
            statement="A sequence id is still missing two seconds after the topic was loaded. Before that, it looks the same as the deviation.",
            missed_before=True,
        ),
        occurrence="On 4.0.8 in about one of twenty first unloads, and every time with the failpoint `replay-slow`. On 3.3.6 once in some hundred unloads.",
    ),
    Deviation(
        name=SNAPSHOT_POSITION_AHEAD,
        rule="DEDUP-12",
        statement="A snapshot that is taken while a full ledger closes has the position of the ledger's last entry, but not its sequence id. After an unload that message is stored twice.",
        cause="The timer takes the last confirmed entry as the snapshot's position (4.0.8: MessageDeduplication, line 673). The last entry of a ledger is confirmed before the ledger closes (OpAddEntry, line 273), and its sequence id is recorded afterwards (lines 279 and 312). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=(">=2.11,<=5.0.0",),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        shadow=Shadow(name="replay-skips-one", statement="The replay leaves out the first entry after the snapshot."),
    ),
    Deviation(
        name=DEDUPLICATION_ENABLED_IN_FLIGHT,
        aliases=("switched-on-in-flight",),
        rule="DEDUP-03",
        statement="A message that is in flight while deduplication is enabled is stored again if it is sent again.",
        cause="MessageDeduplication.recordMessagePersisted raises only the highest id persisted (4.0.8, line 533), and isDuplicate compares with the highest id pushed first (line 454). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
        side="broker",
        releases=("==2.6.0", ">=2.11,<=5.0.0"),
        seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0"),
        shadow=Shadow(
            name="test_an_entry_in_flight_is_stored_again_only_once_and_not_after_a_duplicate",
            by="small history",
            statement="The message is stored again although it was confirmed as a duplicate before, or a message of another producer is.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=CLOSE_OVERTAKES_PRODUCER_SUCCESS,
        aliases=("closed-before-opened",),
        rule="DEDUP-13",
        statement="If the broker closes a producer while creating it, CloseProducer can reach the client before ProducerSuccess. The broker ignores what the producer then sends, and pulsar-client waits forever.",
        cause="When a write fails, ServerCnx sends CloseProducer from the thread of that write. Meanwhile buildProducerAndAddTopic has added the producer to the topic, but not completed its future (4.0.8, lines 1863 to 1871 and 3323). For the keep-alive interval the broker then ignores sends of a recently closed producer (line 1962, since apache/pulsar#19446). pulsar-client plans to reconnect, and drops that plan on ProducerSuccess. 3.3.6 has the same code.",
        side="broker",
        releases=(">=3.1.0,<=4.0.8",),
        clients={"official": "<=3.13.0"},
        seen=("4.0.8", "3.3.5", "3.1.0"),
        occurrence="With pulsar-client 3.13.0, about once in 200 such attempts.",
        has_history=False,
        shadow=Shadow(
            name="test_only_pulsar_client_may_wait_forever_and_only_if_its_producer_was_closed_since_it_started",
            by="small history",
            statement="The wire client waits forever, or pulsar-client does although its topic was not unloaded and no write can have failed.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=ROLLOVER_REOPENS_CLOSED_LEDGER,
        aliases=("unloaded-in-rollover",),
        rule="DEDUP-13",
        statement="If a topic is unloaded while it rolls over to a new ledger, some writes in flight fail and later ones are stored. The log has a gap, and the missing messages count as duplicates when they are sent again.",
        cause="ManagedLedgerImpl.asyncClose sets the state to Closed while a new ledger is being created, so the next entries fail. When the ledger exists, updateLedgersIdsComplete sets the state back to LedgerOpened, and the closed managed ledger stores the entries after them.",
        side="broker",
        releases=(">=2.5.1,<=2.6.0", "==2.11.0"),
        seen=("2.11.0", "2.5.1", "2.6.0"),
        gone=("3.3.6", "4.0.8"),
        occurrence="Without a failpoint, in about one of thirty unloads with messages in flight.",
        has_history=False,
        shadow=Shadow(
            name="test_without_a_rollover_or_a_later_entry_in_flight_an_unload_leaves_no_gap",
            by="small history",
            statement="The log has a gap after an unload, although no full ledger precedes the ledger of the next message.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=LAST_SEQUENCE_ID_FALLS,
        rule="DEDUP-19",
        statement="After a message with a lower sequence id is confirmed, last_sequence_id of pulsar-client returns that id, although the broker has a higher one.",
        cause="ProducerImpl::ackReceived of the C++ client assigns the id of the latest receipt to lastSequenceIdPublished_, instead of the maximum of both. The Java client takes the maximum.",
        side="client",
        clients={"official": "<=3.13.0"},
        seen=("pulsar-client 3.13.0",),
        shadow=Shadow(
            name="test_an_account_below_the_latest_id_is_found_while_the_deviations_are_known",
            by="small history",
            statement="After a duplicate, last_sequence_id of the producer is below the id of that duplicate.",
        ),
    ),
    Deviation(
        name=CONSECUTIVE_BATCH_ASSUMED,
        rule="DEDUP-19",
        statement="After a batch whose sequence ids have gaps, last_sequence_id of pulsar-client is too low: the lowest id of the batch plus its number of messages, minus one.",
        cause="ProducerImpl::ackReceived of the C++ client computes lastSequenceIdPublished_ as sequenceId + op.messagesCount_ - 1, as if the ids of a batch were consecutive. The Java client keeps the highest id of the batch.",
        side="client",
        clients={"official": "<=3.13.0"},
        seen=("pulsar-client 3.13.0",),
        shadow=Shadow(
            name="test_the_first_id_of_a_batch_is_found_while_the_deviations_are_known",
            by="small history",
            statement="After a batch, last_sequence_id of the producer is the lowest id of the batch.",
        ),
    ),
)
