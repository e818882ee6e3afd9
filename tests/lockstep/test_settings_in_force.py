"""What a broker shows of settings that cannot be read, and the three kinds of releases by their dispatchers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.clients.driver.connect import ClientInfo
from conformance.lockstep.settings.dispatchers import KeySharedImplementation
from conformance.lockstep.settings.in_force import completed, drains, shown_by_policies
from conformance.lockstep.settings.traits import (
    BATCH_INDEX_ACKS,
    PER_CONSUMER,
    PER_SUBSCRIPTION,
    REDELIVERY_COUNTS,
    Traits,
)
from conformance.lockstep.world import World
from model.vocabulary import LookAhead

NO_SETTINGS = Traits.of({})


def implementation(*, shows_draining: bool, has_switch: bool, is_classic: bool = False) -> KeySharedImplementation:
    """On a broker whose settings a run may change, and which has no admin API."""
    settings = cast(Any, SimpleNamespace(may_change=True))
    return KeySharedImplementation(
        cast(Any, None), settings, shows_draining=shows_draining, has_switch=has_switch, is_classic=is_classic
    )


def test_a_release_whose_stats_show_no_draining_hashes_is_always_classic() -> None:
    for has_switch in (False, True):
        before_four = implementation(shows_draining=False, has_switch=has_switch)
        assert before_four.can_be_classic
        assert not (before_four.can_drain)
        assert not (before_four.has_draining_hashes)
        assert not before_four.is_switchable
        assert not before_four.use_classic(False)


def test_a_release_with_draining_hashes_and_the_switch_can_have_either() -> None:
    for is_classic in (False, True):
        both = implementation(shows_draining=True, has_switch=True, is_classic=is_classic)
        assert both.can_be_classic
        assert both.can_drain
        assert both.has_draining_hashes is not is_classic


def test_a_release_with_draining_hashes_and_no_switch_is_never_classic() -> None:
    five = implementation(shows_draining=True, has_switch=False)
    assert five.can_drain
    assert five.has_draining_hashes
    assert not five.can_be_classic
    assert not five.is_switchable
    assert not five.use_classic(True)


@pytest.fixture
def topic(world: World) -> str:
    name = f"persistent://{world.namespaces.of_switch('broker')}/shows-{world.fresh()}"
    world.admin.create_topic(name)
    return name


@pytest.fixture
def switched(world: World) -> Iterator[World]:
    yield world
    world.restore_default()


def test_a_role_that_may_read_no_settings_finds_out_those_in_force(world: World, topic: str) -> None:
    real = world.admin.runtime_configuration()
    at = world.broker.addresses.service
    found = completed(None, world.admin, at, topic, shows_draining=world.key_shared.can_drain)
    assert Traits.of(found).acknowledges_parts == Traits.of(real).acknowledges_parts
    assert Traits.of(found).counts_redeliveries == Traits.of(real).counts_redeliveries
    shown = shown_by_policies(world.admin, topic)
    assert {name: float(value) for name, value in shown.items() if value not in ("true", "false")} == {
        name: float(real[name]) for name in shown if real[name] not in ("true", "false")
    }


def test_a_setting_that_a_release_has_dropped_is_neither_on_nor_off_before_the_broker_was_asked(
    world: World, topic: str
) -> None:
    real = world.admin.runtime_configuration()
    dropped = {name: value for name, value in real.items() if name not in (BATCH_INDEX_ACKS, REDELIVERY_COUNTS)}
    found = completed(dropped, world.admin, world.broker.addresses.service, topic, shows_draining=True)
    for name in (BATCH_INDEX_ACKS, REDELIVERY_COUNTS):
        assert found[name] == real.get(name, "false")
    assert {name: found[name] for name in dropped} == dropped


def test_stats_show_which_implementation_a_key_shared_subscription_has(switched: World, topic: str) -> None:
    at = switched.broker.addresses.service
    seen = {}
    for classic in (True, False):
        if switched.key_shared.use_classic(classic):
            seen[classic] = drains(switched.admin, at, f"{topic}-{classic}")
    possible = {True: switched.key_shared.can_be_classic, False: switched.key_shared.can_drain}
    assert seen == {classic: not classic for classic, is_possible in possible.items() if is_possible}


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
    assert traits.of_released(None).acknowledges_parts
    lacking = ClientInfo(name="java", version="1.0", features=frozenset())
    monkeypatch.setattr("conformance.lockstep.settings.traits.client_info", lambda _: lacking)
    assert not traits.of_released(None).acknowledges_parts


def test_a_broker_delays_messages_if_it_is_so_configured() -> None:
    assert Traits.of({"delayedDeliveryEnabled": "true"}).delay_tick_ms == 1000
    assert Traits.of({"delayedDeliveryEnabled": "true", "delayedDeliveryTickTimeMillis": "20"}).delay_tick_ms == 20
    assert Traits.of({"delayedDeliveryEnabled": "false", "delayedDeliveryTickTimeMillis": "20"}).delay_tick_ms is None
