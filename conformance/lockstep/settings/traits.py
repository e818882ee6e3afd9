"""The settings of a broker that performers depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from conformance.clients.driver.connect import client_info
from model.vocabulary import LookAhead, SnapshotSchedule

PER_CONSUMER: Final = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
PER_SUBSCRIPTION: Final = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
BATCH_INDEX_ACKS: Final = "acknowledgmentAtBatchIndexLevelEnabled"
REDELIVERY_COUNTS: Final = "subscriptionRedeliveryTrackerEnabled"

MANY: Final = 10_000
"""More messages than an example has."""


def limit_in_all(runtime: Mapping[str, str]) -> int:
    """How many unacknowledged messages a subscription may have by default; 0 where no example reaches the limit."""
    limit = int(runtime.get("maxUnackedMessagesPerSubscription", "0"))
    return limit if 0 < limit < MANY else 0


def delay_tick_ms(runtime: Mapping[str, str]) -> float | None:
    """How exactly a broker keeps the time of delayed messages; None: it delivers them at once, as one without the
    feature does."""
    if runtime.get("delayedDeliveryEnabled", "false") != "true":
        return None
    return float(runtime.get("delayedDeliveryTickTimeMillis", "1000"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """``acknowledges_parts``: the broker has batch index acks; otherwise it ignores them, so clients do not send them.
    ``counts_redeliveries``: deliveries carry a redelivery count. ``look_ahead``: the replay queue's limit at which a
    Key_Shared subscription stops reading. ``unacknowledged_in_all``: :func:`limit_in_all`. ``delay_tick_ms``: how
    exactly it keeps the time of delayed messages; None: it delivers them at once. ``expiry_period_s``: how often it
    looks for messages that are older than a TTL; ``quota_period_s``: how often it compares backlogs with their quotas.
    ``inactivity_timeout_min``: after which deduplication may forget a producer.
    """

    acknowledges_parts: bool
    counts_redeliveries: bool
    look_ahead: LookAhead
    unacknowledged_in_all: int
    delay_tick_ms: float | None = None
    expiry_period_s: float = 300.0
    quota_period_s: float = 60.0
    inactivity_timeout_min: int = 360

    @classmethod
    def of(cls, runtime: Mapping[str, str]) -> Self:
        return cls(
            acknowledges_parts=runtime.get(BATCH_INDEX_ACKS, "false") == "true",
            counts_redeliveries=runtime.get(REDELIVERY_COUNTS, "true") == "true",
            unacknowledged_in_all=limit_in_all(runtime),
            look_ahead=LookAhead(int(runtime.get(PER_CONSUMER, "0")), int(runtime.get(PER_SUBSCRIPTION, "0"))),
            delay_tick_ms=delay_tick_ms(runtime),
            expiry_period_s=60 * float(runtime.get("messageExpiryCheckIntervalInMinutes", "5")),
            quota_period_s=float(runtime.get("backlogQuotaCheckIntervalInSeconds", "60")),
            inactivity_timeout_min=int(runtime.get("brokerDeduplicationProducerInactivityTimeoutMinutes", "360")),
        )

    def of_released(self, library: str | None) -> Self:
        """The traits for consumers of a released client: some lack batch index acks, or show no redelivery count."""
        features = client_info(library).features
        return replace(
            self,
            acknowledges_parts=self.acknowledges_parts and "batch-index-ack" in features,
            counts_redeliveries=self.counts_redeliveries and "redelivery-count" in features,
        )


def snapshot_schedule(runtime: Mapping[str, str]) -> SnapshotSchedule:
    """When deduplication snapshots are due on a broker with this configuration.

    A release without one of the timer's settings has no such timer.
    """
    interval_s = float(runtime.get("brokerDeduplicationSnapshotIntervalSeconds", "0"))
    frequency_s = float(runtime.get("brokerDeduplicationSnapshotFrequencyInSeconds", "0"))
    has_timer = interval_s > 0 and frequency_s > 0
    return SnapshotSchedule(
        entries=int(runtime.get("brokerDeduplicationEntriesInterval", "1000")),
        period_s=interval_s + frequency_s if has_timer else None,
    )
