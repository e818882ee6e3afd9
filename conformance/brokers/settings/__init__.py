"""What the suite sets in a broker's configuration, and why; each of it can be overridden by name.

Brokers are started on the configuration files that their release ships (``broker.conf`` and ``bookkeeper.conf``, or
``standalone.conf``) with these settings on top. What is not named here keeps the value of that shipped file, which is
not always the default of the code: ``managedLedgerDefaultMarkDeleteRateLimit`` is 0.1 a second in every
``standalone.conf`` and 1.0 in the code.

The defaults below are ours, not Pulsar's. They make a broker quick, and bring the corners of the rules (rollover,
snapshots, chunks) within reach of short histories; none of them changes what the rules promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Choice = Literal["quick", "shipped", "swarm"]
"""What a run can be asked for: a base, or the quick one with settings that are drawn from the run's seed on top."""
CHOICES: Final[tuple[Choice, ...]] = get_args(Choice)
Base = Literal["quick", "shipped"]
"""What settings go on top of: the suite's own (``quick``), or the release's configuration file as it is (``shipped``).
With that, the suite sets only where the broker listens and the name of its cluster."""

_SHIPPED_FRAME_BYTES = 5_253_120
"""The bookie's largest frame in every shipped configuration: 5 MiB and the overhead."""

_FRAME_OVERHEAD_BYTES = 10 * 1024
"""Room for the command and the metadata around a message of the largest size, as the broker itself reckons with."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for the configuration file, and the reason the suite departs from the shipped one."""

    value: str
    why: str


QUICK: Mapping[str, Setting] = {
    "managedLedgerNewEntriesCheckDelayInMillis": Setting("0", "a waiting cursor is notified of new entries at once"),
    "journalFlushWhenQueueEmpty": Setting("true", "the bookie confirms an entry without waiting for a group"),
    "journalMaxGroupWaitMSec": Setting("0", "the same"),
    "journalBufferedWritesThreshold": Setting("1", "the same"),
    "journalSyncData": Setting("false", "nor for the disk; as shipped for a standalone broker"),
    "activeConsumerFailoverDelayTimeMillis": Setting("0", "the next active consumer starts at once"),
}
"""Waiting that a cluster under load does for throughput, and that a test only waits for."""

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
"""Thresholds lowered, and features on, so that short histories reach what the rules speak of."""

STEADY: Mapping[str, Setting] = {
    "brokerDeleteInactiveTopicsEnabled": Setting("false", "a topic stays until the suite has read it back"),
}
"""Housekeeping that would take away what a check still needs."""


MACHINES: Mapping[str, Setting] = {
    "brokerDeduplicationEnabled": Setting("true", "the broker's default differs from Pulsar's"),
    "brokerDeduplicationMaxNumberOfProducers": Setting("6", "a snapshot is full with few producers"),
    "brokerDeduplicationSnapshotIntervalSeconds": Setting("1", "a snapshot is due after a second"),
    "managedLedgerCursorPositionFlushSeconds": Setting("2", "dirty cursors are flushed while an example waits"),
    "statsUpdateInitialDelayInSecs": Setting("1", "rates are updated while an example waits"),
    "statsUpdateFrequencyInSecs": Setting("1", "the same"),
}
"""What a run of the machines sets on a quick broker besides: limits that an example reaches, and waits that it can
take."""


def suite_settings(overrides: Mapping[str, str], base: Base = "quick") -> dict[str, str]:
    """Return what a broker is configured with: the settings of a base, replaced and added to by ``overrides``.

    The largest frame that the bookie takes follows a ``maxMessageSize`` above the shipped one, unless it is overridden
    itself: otherwise the broker would accept messages that it cannot store.
    """
    tables = (QUICK, NEAR, STEADY) if base == "quick" else ()
    chosen = {name: setting.value for table in tables for name, setting in table.items()}
    chosen.update(overrides)
    largest = chosen.get("maxMessageSize", "")
    if "nettyMaxFrameSizeBytes" not in overrides and largest.isdecimal():
        needed_bytes = int(largest) + _FRAME_OVERHEAD_BYTES
        chosen["nettyMaxFrameSizeBytes"] = str(max(needed_bytes, _SHIPPED_FRAME_BYTES))
    return chosen
