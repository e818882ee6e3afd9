"""The deviations from the family SERVE: what a broker owes its clients."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER = "terminated-topic-without-current-ledger"
CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS = "chunk-without-permits-blocks-others"
FORMER_OWNER_PERSISTS_CURSOR = "former-owner-persists-cursor"


DEVIATIONS = (
    Deviation(
        name=FORMER_OWNER_PERSISTS_CURSOR,
        rule="SERVE-06",
        statement="A frozen broker loses a topic, and continues. It persists acks that it had not persisted before, or receives only now. The next owner recovers the cursor from them. If the present owner has persisted nothing of that cursor yet, its first ack afterwards is lost if it is killed.",
        cause="Recovery writes nothing to the cursor's node in the metadata store. So the former owner still knows its version, and ManagedCursorImpl.persistPositionMetaStore succeeds with the state in its memory: for the new ledger if the cursor has none, or because a write to its fenced ledger failed. Once the present owner has opened a ledger of its own, the version differs (BadVersion). If it does so later, its own write fails with BadVersion: the pending mark-deletes fail, and it knows the new version only for the next one. A graceful close persists everything. Read in 4.0.8.",
        side="broker",
        releases=(">=3.3.6,<=5.0.1",),
        seen=("4.2.4", "4.0.8", "3.3.6", "5.0.1"),
        occurrence="Every time.",
        shadow=Shadow(
            name="test_a_former_owner_persists_no_ack_that_nobody_sent",
            by="small history",
            statement="The next owner recovers an ack that no consumer sent to the former owner, or the former owner's acks although the present one has a ledger for the cursor.",
        ),
    ),
    Deviation(
        name=TERMINATED_TOPIC_WITHOUT_CURRENT_LEDGER,
        aliases=("stats-of-terminated-topic-fail",),
        rule="SERVE-01",
        also=("ACK-12", "ACK-13"),
        statement="After a terminated topic is reloaded, requests for its stats or one of its messages, to expire messages up to one, to reset a cursor to a time, or to skip messages of a topic without any are answered with an internal error (500). Once a message of its last ledger is due for redelivery, its Shared or Key_Shared subscription dispatches nothing more.",
        cause='The managed ledger of a terminated topic has no current ledger once it is reloaded. What reads the id of that ledger fails: `Cannot invoke "org.apache.bookkeeper.client.LedgerHandle.getId()" because "currentLedger" is null`. ManagedLedgerImpl.asyncReadEntry does so for a peek and for each entry of a replay read (2.11.0, line 1917), and leaves the dispatcher waiting for that read. To expire up to a message, the broker reads it for the size of its batch. In a topic without ledgers, ManagedLedgerImpl.getPositionAfterN asks an empty map for its last key (2.11.0, line 3310), whose exception has no message. Which method of the stats does so was not looked up. Releases from 3.3.6 and 4.0.4 on make the last ledger the current one (ManagedLedgerImpl.initialize). Read in 2.10.1, 2.10.5, 2.11.0, 3.0.7 and 3.3.5, and in the byte code of 2.5.1 to 2.9.1, 3.2.3 and 4.0.1.',
        upstream=("apache/pulsar#24058",),
        side="broker",
        releases=("<3.3.6", ">=4.0,<4.0.4"),
        seen=("3.3.5", "2.11.0"),
        gone=("3.3.6", "4.0.4", "4.0.8"),
        shadow=Shadow(
            name="test_a_missing_current_ledger_fails_requests_of_a_terminated_topic_only",
            by="small history",
            statement="A request for the stats or for a message fails before the topic is terminated and reloaded, or with another error. A message is not dispatched before any of the last ledger is due for redelivery.",
        ),
    ),
    Deviation(
        name=CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS,
        rule="SERVE-03",
        statement="On a Shared subscription, a chunk whose consumer has no permits keeps the dispatcher from sending anything new to the other consumers, although they have permits. The subscription recovers when that consumer adds permits.",
        cause="PersistentDispatcherMultipleConsumers puts a chunk back into the replay queue when the consumer that has the message has no permits, and replays that queue before it reads anything new. While another consumer has permits, it reads the chunk again and again (4.0.8, sendChunkedMessagesToConsumers).",
        side="broker",
        releases=(">=2.5.1,<=5.0.1",),
        shadow=Shadow(
            name="test_another_starvation_of_a_shared_subscription_has_no_known_reason",
            by="small history",
            statement="A consumer is starved although no consumer has the first chunk of any message that is left, or no chunk of that message is left.",
        ),
        seen=("4.0.8", "3.3.6", "2.7.4", "2.5.1", "5.0.0-M1", "5.0.1"),
    ),
)
