"""The traits of a broker follow from its runtime configuration."""

from __future__ import annotations

import pytest

from conformance.lockstep.traits import PER_CONSUMER, PER_SUBSCRIPTION, Traits
from model.vocabulary import LookAhead

NO_SETTINGS = Traits.of({})


def test_a_broker_without_these_settings_has_the_defaults_of_older_releases() -> None:
    assert not NO_SETTINGS.acknowledges_parts
    assert NO_SETTINGS.counts_redeliveries
    assert NO_SETTINGS.look_ahead.limit(3) is None
    assert NO_SETTINGS.delay_tick_ms is None


def test_the_configuration_of_the_broker_decides() -> None:
    traits = Traits.of(
        {
            "acknowledgmentAtBatchIndexLevelEnabled": "true",
            "subscriptionRedeliveryTrackerEnabled": "false",
            PER_CONSUMER: "2",
            PER_SUBSCRIPTION: "5",
        }
    )
    assert traits.acknowledges_parts
    assert not traits.counts_redeliveries
    assert traits.look_ahead == LookAhead(2, 5)
    assert [traits.look_ahead.limit(consumers) for consumers in (1, 2, 3)] == [2, 4, 5]


def test_a_client_without_batch_index_acks_acknowledges_whole_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traits = Traits.of({"acknowledgmentAtBatchIndexLevelEnabled": "true"})
    assert traits.of_pulsar_client().acknowledges_parts
    monkeypatch.setattr("conformance.lockstep.traits.ACKNOWLEDGES_PARTS", False)
    assert not traits.of_pulsar_client().acknowledges_parts


def test_a_broker_delays_messages_if_it_is_so_configured() -> None:
    assert Traits.of({"delayedDeliveryEnabled": "true"}).delay_tick_ms == 1000
    assert Traits.of({"delayedDeliveryEnabled": "true", "delayedDeliveryTickTimeMillis": "20"}).delay_tick_ms == 20
    assert Traits.of({"delayedDeliveryEnabled": "false", "delayedDeliveryTickTimeMillis": "20"}).delay_tick_ms is None
