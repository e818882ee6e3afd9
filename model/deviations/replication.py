"""The deviations from document 001: replicated subscriptions."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

UPDATE_OF_UNREPLICATED_SUBSCRIPTION = "update-of-unreplicated-subscription"
REQUEST_WITHOUT_REMOTE_CLUSTER = "request-without-remote-cluster"
UPDATE_CREATES_AT_LATEST = "update-creates-at-latest"
UPDATE_PASSES_RESTRICTED_MESSAGES = "update-passes-restricted-messages"
CLOSED_REPLICATOR_READS_NO_REQUEST = "closed-replicator-reads-no-request"
FIRST_ROUND_RESPONSE_COUNTS_TWICE = "first-round-response-counts-twice"
SNAPSHOT_NOT_AT_HIGHEST_RESPONSE = "snapshot-not-at-highest-response"
SNAPSHOT_CACHE_NOT_RECOVERED = "snapshot-cache-not-recovered"
REQUEST_BEFORE_REPLICATOR_EXISTS = "request-before-replicator-exists"
TOO_LARGE_TO_REPLICATE = "too-large-to-replicate"
REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE = "replicator-stuck-on-too-large-message"
RECOVERY_IGNORES_REPLICATOR_POSITIONS = "recovery-ignores-replicator-positions"
SNAPSHOT_CACHE_OUTRUN = "snapshot-cache-outrun"

DEVIATIONS = (
    Deviation(
        name=UPDATE_OF_UNREPLICATED_SUBSCRIPTION,
        aliases=("unreplicated-updated",),
        rule="REPL-18",
        statement="An update also advances a subscription of the same name that is not replicated. Its consumers never receive the messages that it skips.",
        cause="ReplicatedSubscriptionsController.receiveSubscriptionUpdated finds the subscription by its name and acknowledges cumulatively, without a check whether it is replicated here.",
        side="broker",
        releases=("==4.0.8", "==3.3.6", "==2.11.0"),
        seen=("4.0.8", "3.3.6", "2.11.0"),
    ),
    Deviation(
        name=REQUEST_WITHOUT_REMOTE_CLUSTER,
        aliases=("marked-though-alone",),
        rule="REPL-18",
        statement="For a replicated subscription of a topic that is not replicated, the broker writes a snapshot request in every period while the topic is loaded. The backlog counts these markers.",
        cause="PersistentTopic.checkReplicatedSubscriptionControllerState creates a controller for a replicated subscription without a check for remote clusters (2.11.0, read in its bytecode). ReplicatedSubscriptionsSnapshotBuilder.start writes the request before it looks for clusters to ask. No snapshot completes, so there always seems to be something new. Fixed by apache/pulsar#21495.",
        upstream=("apache/pulsar#21495",),
        side="broker",
        releases=("==2.11.0",),
        seen=("2.11.0",),
        gone=("3.3.6", "4.0.8"),
    ),
    Deviation(
        name=UPDATE_CREATES_AT_LATEST,
        aliases=("created-at-latest",),
        rule="REPL-14",
        statement="An update that finds no subscription creates it at the end of the topic. A consumer that fails over misses the messages since the update's position, and later updates acknowledge them in the other clusters.",
        cause="ReplicatedSubscriptionsController.receiveSubscriptionUpdated creates the subscription with InitialPosition.Latest and does not acknowledge up to the update's position (2.11.0). Later releases create it at the earliest position and acknowledge from there. Fixed by apache/pulsar#20767.",
        upstream=("apache/pulsar#20767",),
        side="broker",
        releases=("==2.11.0",),
        seen=("2.11.0",),
        gone=("3.3.6", "4.0.8"),
    ),
    Deviation(
        name=UPDATE_PASSES_RESTRICTED_MESSAGES,
        rule="REPL-14",
        statement="An update acknowledges up to a position, including messages that are restricted to other clusters than its source. No consumer of the source ever receives them, and a consumer that fails over misses them.",
        cause="A snapshot holds one position for each cluster, and ReplicatedSubscriptionsController.receiveSubscriptionUpdated acknowledges cumulatively up to it. Messages with a list of clusters (replicate_to) that omits the source of the update are before that position, but not in the source's log. PIP-33 does not mention them.",
        side="broker",
        releases=("==4.0.8", "==3.3.6", "==2.11.0"),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        occurrence="Every time, in 13 steps.",
        shadow=Shadow(
            name="test_an_update_may_pass_only_messages_that_its_source_may_not_have",
            by="small history",
            statement="A restricted message that the source of the update has is missed.",
        ),
    ),
    Deviation(
        name=CLOSED_REPLICATOR_READS_NO_REQUEST,
        aliases=("closed-replicator-sleeps",),
        rule="REPL-17",
        statement="A replicator that was closed with an idle topic reads nothing until a producer connects or the topic is reloaded. Requests get no response, so no snapshot completes, and other clusters neither create nor advance the subscription.",
        cause="PersistentTopic.checkGC closes the replicators of an inactive topic, and a remote producer keeps the topic itself. PersistentReplicator.acquirePermitsIfNotFetchingSchema reads only in the state Started, and beforeDisconnect cancels the pending read (4.0.8). So nothing calls ReplicatedSubscriptionsController.receivedSnapshotRequest, which would start the producer. Until 4.0.4 a closed replicator continued to read. A reviewer of apache/pulsar#25915 expects it.",
        upstream=("apache/pulsar#25915",),
        side="broker",
        releases=("==4.0.8",),
        seen=("4.0.8",),
        gone=("4.0.4", "3.3.6", "2.11.0"),
    ),
    Deviation(
        name=FIRST_ROUND_RESPONSE_COUNTS_TWICE,
        aliases=("rounds-not-told-apart",),
        rule="REPL-07",
        also=("REPL-14",),
        statement="Among three clusters, a response that a replicator sends again counts for the second round. The snapshot covers a message of the third cluster that another one does not have, and a consumer that fails over there never receives it.",
        cause="ReplicatedSubscriptionsSnapshotBuilder.receivedSnapshotResponse marks a cluster as answered in either round, because requests and responses carry only the id of the snapshot. A replicator sends a response again if its link broke before the confirmation. With deduplication the repeated response is not stored, and cannot count.",
        side="broker",
        releases=("==4.0.8", "==3.3.6", "==2.11.0"),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        occurrence="On 4.0.8 in two of two plays with shipped settings. Exploring the model found it first.",
        shadow=Shadow(
            name="test_a_misled_snapshot_excuses_only_what_it_covers_too_early",
            by="small history",
            statement="A message that the misled snapshot does not cover is missed, too.",
            missed_before=True,
        ),
    ),
    Deviation(
        name=SNAPSHOT_NOT_AT_HIGHEST_RESPONSE,
        aliases=("last-handled-counts",),
        rule="REPL-09",
        also=("REPL-14",),
        statement="Among three clusters, a snapshot can have the position of a response that is not the last in the log. According to the model a consumer that fails over may miss a message.",
        cause="The replicator of each remote cluster handles the responses of that cluster (PersistentReplicator.checkReplicatedSubscriptionMarker), and reads the log with its own cursor at its own pace. ReplicatedSubscriptionsSnapshotBuilder.receivedSnapshotResponse takes the position of the response that completes the snapshot, not the highest position.",
        side="broker",
        releases=("==3.3.6", "==2.11.0", "==4.0.8"),
        seen=("4.0.8", "3.3.6", "2.11.0"),
        occurrence="31 of 807 snapshots, more on a busy machine; one of 63 on 2.11.0. The lost message was not seen.",
    ),
    Deviation(
        name=SNAPSHOT_CACHE_NOT_RECOVERED,
        aliases=("cache-not-refilled",),
        rule="REPL-12",
        statement="A reloaded topic loses its snapshot cache. It does not read the snapshots after an unacknowledged message again, so no update is published when mark-delete passes them.",
        cause="ReplicatedSubscriptionSnapshotCache is in memory. The dispatcher fills it as it reads markers (AbstractBaseDispatcher.filterEntriesForConsumer), which it acknowledges individually. A recovered cursor does not read individually acknowledged entries.",
        upstream=("apache/pulsar#25044",),
        side="broker",
        releases=("==4.0.8", "==3.3.6"),
        seen=("4.0.8", "3.3.6"),
        gone=("2.11.0",),
        occurrence="On 4.0.8 in 8 of 8 plays, on 3.3.6 in 2 of 3, on 2.11.0 in 0 of 3.",
    ),
    Deviation(
        name=REQUEST_BEFORE_REPLICATOR_EXISTS,
        aliases=("replicator-not-asked",),
        rule="REPL-09",
        also=("REPL-03",),
        statement="Among three clusters, a snapshot that starts while its topic is loading omits a cluster whose replicator does not exist yet. With one other cluster left there is no second round; with none left it starts although the link is cut.",
        cause="ReplicatedSubscriptionsController.startNewSnapshot asks the clusters that topic.getReplicators() has at that moment (read in 4.0.8, and in the bytecode of 2.11.0), and replicators are added while the topic loads. According to the model a consumer that fails over may miss a message; this was not seen.",
        side="broker",
        releases=("==2.11.0",),
        seen=("2.11.0",),
        gone=("4.0.8",),
        occurrence="On 2.11.0 in 4 of 6 plays (REPL-03 in 2 of 3), on 4.0.8 in 0 of 6.",
    ),
    Deviation(
        name=TOO_LARGE_TO_REPLICATE,
        rule="REPL-01",
        statement="A message of nearly maxMessageSize is confirmed but never replicated, and the replicator reports no backlog. An update then makes the source acknowledge a message that no consumer received.",
        cause="GeoPersistentReplicator.replicateEntries adds its cluster (replicated_from) and its position (a property) to each message. Its producer of the Java client rejects messages larger than maxMessageSize with their headers (since PIP-132, apache/pulsar#14007). PersistentReplicator.ProducerSendCallback.sendComplete acknowledges the entry after an InvalidMessageException, as after a success (4.0.8, lines 398 to 415). With 10,240 bytes this affects messages of more than some 10,160, and all chunks of a chunked message but the last.",
        upstream=("apache/pulsar#14007",),
        side="broker",
        releases=("==4.0.8", "==3.3.6", "==2.11.0"),
        seen=("4.0.8", "3.3.6", "2.11.0"),
    ),
    Deviation(
        name=REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE,
        aliases=("stopped-by-too-large",),
        rule="REPL-01",
        statement="If a replicator has a message of nearly maxMessageSize to send when its link heals, it is connected and sends nothing more, messages or markers, until the topic is reloaded. The broker logs nothing; the backlog grows.",
        cause="A disconnected replicator of these releases continues to pass what it reads to its producer. After the reconnect ProducerImpl.recoverProcessOpSendMsgFrom finds the message larger than maxMessageSize (isMessageSizeExceeded) and fails it. The replicator acknowledges it (too-large-to-replicate), but the producer keeps it in its queue (read in the bytecode of 3.3.6). 4.0.8 has the same lines, and its replicators passed such a message in three of three plays. apache/pulsar#26002 is another way to the same state.",
        upstream=("apache/pulsar#26002",),
        side="broker",
        releases=("==3.3.6", "==2.11.0"),
        seen=("3.3.6", "2.11.0"),
        gone=("4.0.8",),
        occurrence="On 3.3.6 in 3 of 3 plays, on 4.0.8 in 0 of 3.",
    ),
    Deviation(
        name=RECOVERY_IGNORES_REPLICATOR_POSITIONS,
        aliases=("replay-forgets-replicators",),
        rule="REPL-01",
        statement="With deduplication, a message that a replicator sends again after the remote topic was reloaded is stored twice. Messages that producers send again are recognized.",
        cause="MessageDeduplication.isDuplicateReplV2 compares positions of the source, kept under the replicator's name with _LID and _EID. When a topic is loaded, replayCursor reads the log after the snapshot and counts every entry by its original producer's name and sequence id only. So what replicators stored since the last snapshot is lost (4.0.8, lines 239 to 258).",
        upstream=("apache/pulsar#25861",),
        side="broker",
        releases=("==4.0.8", "==3.3.6"),
        seen=("4.0.8", "3.3.6"),
    ),
    Deviation(
        name=SNAPSHOT_CACHE_OUTRUN,
        rule="REPL-19",
        statement="While a consumer lags by more snapshots than its subscription caches, the other clusters do not follow it, however long it acknowledges.",
        cause="ReplicatedSubscriptionSnapshotCache.addNewSnapshot drops the oldest snapshots beyond replicatedSubscriptionsSnapshotMaxCachedPerSubscription when the dispatcher reads a new one. A consumer that is so many snapshots behind its dispatcher finds each snapshot dropped when it has acknowledged the messages before it (4.0.8). 3.3.6 has the same code (read).",
        side="broker",
        releases=("==4.0.8", "==3.3.6"),
        seen=("4.0.8",),
        shadow=Shadow(
            name="cache-keeps-the-latest-only",
            by="seeded defect",
            statement="The snapshot cache keeps the latest snapshot only, so that a consumer that leaves a single message unacknowledged is not followed.",
        ),
    ),
)
