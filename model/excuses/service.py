"""The deviations from the family SERVE: what a broker owes its clients."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

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
