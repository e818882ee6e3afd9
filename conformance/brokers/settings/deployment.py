"""The settings of a deployment of separate processes with any base, including the shipped one, with the reasons.

A broker and a few bookies need them on one machine. Addresses and data folders are set elsewhere. Each setting can be
overridden by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.brokers.settings import Setting
from conformance.brokers.size import SMALLEST, Size

_NULL_STATS: Final = "org.apache.bookkeeper.stats.NullStatsProvider"


def of_broker(size: Size = SMALLEST) -> Mapping[str, Setting]:
    """The settings in ``broker.conf`` of each broker of a deployment, as far as the release has them."""
    alone = {
        "loadBalancerEnabled": Setting("false", "no topic is unloaded, and no bundle split, unless an example asks"),
        "isRunningStandalone": Setting("true", "clients stay at the address that they came to, a proxy's too"),
    }
    several = {
        "loadBalancerSheddingEnabled": Setting("false", "no topic is unloaded unless an example asks"),
        "loadBalancerAutoBundleSplitEnabled": Setting("false", "no bundle is split"),
        "defaultNumberOfNamespaceBundles": Setting("1", "one broker owns all topics of a namespace"),
    }
    impatient = {
        "bookkeeperClientTimeoutInSeconds": Setting("2", "an example does not wait for a frozen bookie for 30 s")
    }
    copies = Setting(str(min(size.bookies, 2)), "as shipped, but no more than there are bookies")
    return {
        "managedLedgerDefaultEnsembleSize": copies,
        "managedLedgerDefaultWriteQuorum": copies,
        "managedLedgerDefaultAckQuorum": copies,
        "loadBalancerOverrideBrokerNicSpeedGbps": Setting("1", "some releases do not start on a machine without it"),
        **(alone if size.brokers == 1 else several),
        **({} if size.bookies == 1 else impatient),
    }


BOOKIE: Final[Mapping[str, Setting]] = {
    "listeningInterface": Setting("lo", "it listens at its address, 127.0.0.1, and not at all of the machine's"),
    "allowLoopback": Setting("true", "the same"),
    "autoRecoveryDaemonEnabled": Setting("false", "no ledger is copied unless an example asks"),
    "statsProviderClass": Setting(_NULL_STATS, "the shipped one listens on a fixed port"),
    "httpServerEnabled": Setting("false", "the same"),
    "diskUsageThreshold": Setting("0.99", "a well-filled disk does not make it read-only; as in standalone.conf"),
    "diskUsageWarnThreshold": Setting("0.99", "the same"),
    "journalPreAllocSizeMB": Setting("4", "a run folder stays small"),
}
"""The settings in ``bookkeeper.conf``."""
