"""The settings that a swarm draws from: each changes when or how a broker does something that the documents describe.

None of them changes the rules. A run with ``--settings swarm`` draws from its seed a subset of those that the release
has, each with one of its values, on top of the suite's own settings.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SWITCH: Final = ("true", "false")


@dataclass(frozen=True, slots=True)
class Varied:
    """A setting, the values to draw from, and its meaning."""

    name: str
    values: tuple[str, ...]
    why: str


SWARM: Final[tuple[Varied, ...]] = (
    # Acknowledgments and cursors.
    Varied("acknowledgmentAtBatchIndexLevelEnabled", SWITCH, "whether parts of batches are acknowledged"),
    Varied("managedLedgerDefaultMarkDeleteRateLimit", ("0", "0.1", "5"), "how often a cursor is persisted"),
    Varied("managedLedgerCursorPositionFlushSeconds", ("1", "3"), "how often dirty cursors are flushed"),
    Varied("managedLedgerMaxUnackedRangesToPersistInMetadataStore", ("0", "1", "1000"), "where ranges are stored"),
    Varied("managedLedgerUnackedRangesOpenCacheSetEnabled", SWITCH, "how ranges are kept in memory"),
    Varied("managedLedgerPersistIndividualAckAsLongArray", SWITCH, "how ranges are written"),
    Varied("managedCursorInfoCompressionType", ("NONE", "LZ4", "ZSTD"), "how a cursor is written"),
    Varied("managedCursorInfoCompressionThresholdInBytes", ("0", "16384"), "which cursors are compressed"),
    Varied("subscriptionRedeliveryTrackerEnabled", SWITCH, "whether redeliveries are counted"),
    # Ledgers and their cache.
    Varied("managedLedgerMaxEntriesPerLedger", ("1", "2", "50000"), "when a topic rolls over to a new ledger"),
    Varied("managedLedgerInfoCompressionType", ("NONE", "LZ4", "ZSTD"), "how the list of ledgers is written"),
    Varied("managedLedgerCacheSizeMB", ("0", "1"), "whether reads are served by the cache or the bookie"),
    Varied("managedLedgerCacheEvictionTimeThresholdMillis", ("1", "60000"), "how long entries are cached"),
    Varied("managedLedgerCursorBackloggedThreshold", ("0", "1000"), "which cursors are served by the cache"),
    Varied("cacheEvictionByMarkDeletedPosition", SWITCH, "what is evicted from the cache"),
    Varied("managedLedgerCacheCopyEntries", SWITCH, "whether the cache copies entries"),
    Varied("managedLedgerMinimumBacklogCursorsForCaching", ("0", "1"), "which reads of a backlog are cached"),
    # Dispatch.
    Varied("dispatcherMaxReadBatchSize", ("1", "2", "100"), "how many entries are read at a time"),
    Varied("dispatcherMaxRoundRobinBatchSize", ("1", "2", "20"), "how many messages a consumer gets per turn"),
    Varied("dispatcherMaxReadSizeBytes", ("1", "5242880"), "how many bytes are read at a time"),
    Varied("dispatcherRetryBackoffInitialTimeInMs", ("0", "1", "5"), "the dispatcher's first retry delay"),
    Varied("dispatcherRetryBackoffMaxTimeInMs", ("0", "10"), "its largest retry delay"),
    Varied("dispatcherReadFailureBackoffInitialTimeInMs", ("0", "100"), "its delay after a failed read"),
    Varied("dispatcherDispatchMessagesInSubscriptionThread", SWITCH, "which thread dispatches"),
    Varied("preciseDispatcherFlowControl", SWITCH, "how many entries a read asks for"),
    Varied("streamingDispatch", SWITCH, "the streaming dispatcher, if the release has it"),
    Varied("subscriptionSharedUseClassicPersistentImplementation", SWITCH, "the Shared dispatcher before 4.0"),
    Varied("subscriptionKeySharedUseClassicPersistentImplementation", SWITCH, "the Key_Shared dispatcher before 4.0"),
    Varied("keySharedUnblockingIntervalMs", ("1", "10", "100"), "the interval of reads after a hash is drained"),
    Varied("keySharedLookAheadMsgInReplayThresholdPerConsumer", ("1", "2000"), "how far a dispatcher looks ahead"),
    Varied("keySharedLookAheadMsgInReplayThresholdPerSubscription", ("1", "20000"), "the same for all consumers"),
    Varied("activeConsumerFailoverDelayTimeMillis", ("0", "50"), "the delay before the next active consumer"),
    Varied("managedLedgerNewEntriesCheckDelayInMillis", ("0", "10"), "when a waiting cursor checks for new entries"),
    # Deduplication.
    Varied("brokerDeduplicationEnabled", SWITCH, "whether deduplication is on by default"),
    Varied("brokerDeduplicationEntriesInterval", ("1", "3", "1000"), "the entries between two snapshots"),
    Varied("brokerDeduplicationSnapshotIntervalSeconds", ("1", "120"), "the time between two snapshots"),
    Varied("brokerDeduplicationSnapshotFrequencyInSeconds", ("0", "1"), "how often the snapshot timer runs"),
    Varied("brokerDeduplicationMaxNumberOfProducers", ("2", "6", "10000"), "how many producers a snapshot holds"),
    # Producers.
    Varied("maxPendingPublishRequestsPerConnection", ("1", "1000"), "how many sends a connection may have in flight"),
    # Add new ones at the end, so that a seed draws the same values of the others as before.
    Varied("maxUnackedMessagesPerSubscription", ("4", "20"), "when a subscription gets no new messages"),
    Varied("delayedDeliveryEnabled", SWITCH, "whether delayed messages are delivered later, or at once"),
    Varied("delayedDeliveryTickTimeMillis", ("5", "200"), "how exactly their time is kept"),
    Varied("isDelayedDeliveryDeliverAtTimeStrict", SWITCH, "whether they may be delivered a tick before their time"),
    Varied("managedLedgerBatchReadEnabled", SWITCH, "whether several entries are read from a bookie at once"),
    Varied("managedLedgerReadEntriesCallbackInline", SWITCH, "which thread completes a read"),
    Varied("managedLedgerReadAheadEnabled", SWITCH, "whether entries are read before they are asked for"),
    Varied("managedLedgerAddEntryHandoverMaxBatchItems", ("1", "1024"), "how many writes are handed over at once"),
    Varied("managedLedgerMaxUnackedRangesToPersist", ("2", "8", "10000"), "how many ranges are persisted at all"),
)


def drawn(seed: int, has: Callable[[str], bool]) -> dict[str, str]:
    """The settings that a seed draws, for a release that ``has`` some of them.

    A seed draws the same values for every release, without the settings that it lacks.
    """
    chance = random.Random(seed)
    share = chance.uniform(0.2, 0.8)
    chosen = {one.name: chance.choice(one.values) for one in SWARM if chance.random() < share}
    return {name: value for name, value in chosen.items() if has(name)}
