"""What performers go by follows from the configuration of the running broker."""

from __future__ import annotations

import pytest

from conformance.lockstep.traits import PER_CONSUMER, PER_SUBSCRIPTION, Traits
from model.key_shared.liveness import LookAhead

SAYS_NOTHING = Traits.of({})


def test_a_broker_that_says_nothing_has_the_defaults_of_the_releases_before_these_settings() -> None:
    assert not SAYS_NOTHING.acknowledges_parts
    assert SAYS_NOTHING.counts_redeliveries
    assert SAYS_NOTHING.look_ahead.limit(3) is None


def test_what_it_says_counts() -> None:
    said = Traits.of(
        {
            "acknowledgmentAtBatchIndexLevelEnabled": "true",
            "subscriptionRedeliveryTrackerEnabled": "false",
            PER_CONSUMER: "2",
            PER_SUBSCRIPTION: "5",
        }
    )
    assert said.acknowledges_parts
    assert not said.counts_redeliveries
    assert said.look_ahead == LookAhead(2, 5)
    assert [said.look_ahead.limit(consumers) for consumers in (1, 2, 3)] == [2, 4, 5]


def test_consumers_of_a_client_that_does_not_acknowledge_parts_of_batches_acknowledge_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = Traits.of({"acknowledgmentAtBatchIndexLevelEnabled": "true"})
    assert said.of_pulsar_client().acknowledges_parts
    monkeypatch.setattr("conformance.lockstep.traits.ACKNOWLEDGES_PARTS", False)
    assert not said.of_pulsar_client().acknowledges_parts
