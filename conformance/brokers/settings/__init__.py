"""The settings that the suite gives a broker, with the reasons; each can be overridden by name.

Brokers start with the configuration files of their release (``broker.conf`` and ``bookkeeper.conf``, or
``standalone.conf``) and these settings on top. Other settings keep the shipped value, which may differ from the default
in the code: ``managedLedgerDefaultMarkDeleteRateLimit`` is 0.1 per second in every ``standalone.conf`` and 1.0 in the
code.

The defaults below are the suite's, not Pulsar's. They make a broker fast, and let short histories reach rollovers,
snapshots and chunks; none of them changes the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Choice = Literal["quick", "shipped", "swarm"]
"""The choices for a run: a base, or the quick one with settings drawn from the run's seed on top."""
CHOICES: Final[tuple[Choice, ...]] = get_args(Choice)
Base = Literal["quick", "shipped"]
"""The base of other settings: the suite's own (``quick``), or the release's configuration file (``shipped``), in which
the suite sets only the addresses and the cluster's name."""

_SHIPPED_FRAME_BYTES = 5_253_120
"""The bookie's largest frame in every shipped configuration: 5 MiB and the overhead."""

_FRAME_OVERHEAD_BYTES = 10 * 1024
"""The broker's allowance for the command and metadata of a message of the largest size."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for the configuration file, and the reason why it differs from the shipped one."""

    value: str
    why: str


QUICK: Mapping[str, Setting] = {
    "managedLedgerNewEntriesCheckDelayInMillis": Setting("0", "a waiting cursor is notified of new entries at once"),
    "journalFlushWhenQueueEmpty": Setting("true", "the bookie confirms an entry without waiting for a group"),
    "journalMaxGroupWaitMSec": Setting("0", "the same"),
    "journalBufferedWritesThreshold": Setting("1", "the same"),
    "journalSyncData": Setting("false", "nor for the disk; as shipped for a standalone broker"),
    "activeConsumerFailoverDelayTimeMillis": Setting("0", "the next active consumer starts at once"),
    "delayedDeliveryTickTimeMillis": Setting("20", "a delayed message is delivered within milliseconds of its time"),
    "numExecutorThreadPoolSize": Setting(
        "16",
        "topics of several namespaces are loaded side by side; with one for each of two processors 2.8.2 waits 30 s",
    ),
}
"""Delays that give a loaded cluster throughput, and only cost a test time, and threads that a small machine lacks."""

NEAR: Mapping[str, Setting] = {
    "managedLedgerMaxEntriesPerLedger": Setting("5", "a topic rolls over to a new ledger within one example"),
    "managedLedgerMinLedgerRolloverTimeMinutes": Setting("0", "a full ledger rolls over at once"),
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": Setting(
        "3", "few ranges are stored in the cursor's ledger"
    ),
    "managedLedgerDefaultMarkDeleteRateLimit": Setting(
        "0.1", "acks stay unpersisted for an example's length; as shipped for a standalone broker"
    ),
    "maxMessageSize": Setting("10240", "messages of a few kilobytes are chunked"),
    "brokerDeduplicationEntriesInterval": Setting("5", "a deduplication snapshot is due after five entries"),
    "brokerDeduplicationSnapshotFrequencyInSeconds": Setting("1", "the snapshot timer runs often"),
    "acknowledgmentAtBatchIndexLevelEnabled": Setting("true", "rules of documents 003 and 004 are about batches"),
    "topicLevelPoliciesEnabled": Setting("true", "deduplication is enabled per topic; off by default before 2.11"),
    "systemTopicEnabled": Setting("true", "topic policies are stored in one; off by default before 2.11"),
}
"""Lower thresholds and enabled features, so that short histories exercise the rules."""

STEADY: Mapping[str, Setting] = {
    "brokerDeleteInactiveTopicsEnabled": Setting("false", "a topic stays until the suite has read it back"),
}
"""Housekeeping that would remove what a check still needs."""


MACHINES: Mapping[str, Setting] = {
    "brokerDeduplicationEnabled": Setting("true", "the broker's default differs from Pulsar's"),
    "brokerDeduplicationMaxNumberOfProducers": Setting("6", "a snapshot is full with few producers"),
    "brokerDeduplicationSnapshotIntervalSeconds": Setting("1", "a snapshot is due after a second"),
    "managedLedgerCursorPositionFlushSeconds": Setting("2", "dirty cursors are flushed while an example waits"),
    "managedLedgerMaxUnackedRangesToPersist": Setting("20", "a cursor has more ranges than are persisted"),
    "messageExpiryCheckIntervalInMinutes": Setting("1", "messages older than a TTL expire within a minute"),
    "journalSyncData": Setting("true", "what is confirmed is synced, and survives a power failure"),
    "flushInterval": Setting("500", "checkpoints of the bookie, after which it needs less of its journal, are often"),
    "backlogQuotaCheckIntervalInSeconds": Setting("1", "a backlog is compared with its quota within a second"),
    "statsUpdateInitialDelayInSecs": Setting("1", "rates are updated while an example waits"),
    "statsUpdateFrequencyInSecs": Setting("1", "the same"),
}
"""Further settings for a run of the machines on a quick broker: limits and delays that an example reaches."""


ROLLBACK: Mapping[str, Setting] = {
    "managedLedgerPersistIndividualAckAsLongArray": Setting(
        "false", "releases without it, such as 3.0.7, do not read arrays of individual acks (#9292, #23759)"
    ),
    "scalableTopicsEnabled": Setting("false", "4.x does not serve scalable topics (upgrade guide to 5.0)"),
    "packagesManagementJsonSerializationEnabled": Setting("false", "4.x does not read packages as JSON (the same)"),
}
"""Settings for the newer brokers of a rolling upgrade, with the source, where the older release does not have them.
Otherwise they would store what the older one is documented not to read."""


def suite_settings(overrides: Mapping[str, str], base: Base = "quick") -> dict[str, str]:
    """Return the settings of a base with ``overrides``.

    The bookie's largest frame follows a ``maxMessageSize`` above the shipped one, unless it is overridden, too.
    Otherwise the broker would accept messages that it cannot store.
    """
    tables = (QUICK, NEAR, STEADY) if base == "quick" else ()
    chosen = {name: setting.value for table in tables for name, setting in table.items()}
    chosen.update(overrides)
    largest = chosen.get("maxMessageSize", "")
    if "nettyMaxFrameSizeBytes" not in overrides and largest.isdecimal():
        needed_bytes = int(largest) + _FRAME_OVERHEAD_BYTES
        chosen["nettyMaxFrameSizeBytes"] = str(max(needed_bytes, _SHIPPED_FRAME_BYTES))
    return chosen
