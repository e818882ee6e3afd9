"""Switching seeded defects in a real broker. What most of them break is shown in ``tests/replays``."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from conformance.brokers.interface import AgentAddress, Broker
from conformance.brokers.select import parse_broker
from conformance.faults.byteman import Agent, AgentGone, rule_names
from conformance.faults.catalogue import BrokerDefect, broker_defects, find
from conformance.faults.defects import is_on, switch_off, switch_on, switched, was_reached
from conformance.harness_error import HarnessError
from tests.faults.experiments import EXPERIMENTS, Experiment, Observation, seen
from tests.faults.topic_fixture import TopicFixture


def broker_defect(name: str) -> BrokerDefect:
    found = find(name)
    assert isinstance(found, BrokerDefect)
    return found


MISFIT = BrokerDefect(
    name="misfit",
    breaks="DEDUP-03",
    summary="A rule that is badly typed.",
    text=broker_defect("check-removed")
    .text.replace("defect check-removed", "defect misfit")
    .replace("NotDup", "NoSuchAnswer"),
)


def observe(broker: Broker, experiment: Experiment) -> Observation:
    """Make an experiment on a topic of its own."""
    fixture = TopicFixture(broker)
    try:
        return experiment(fixture)
    finally:
        fixture.close()


@contextmanager
def configured(request: pytest.FixtureRequest, shared: Broker, settings: Mapping[str, str]) -> Iterator[Broker]:
    """The session's broker, or one for this defect alone if other settings are needed."""
    if not settings:
        yield shared
        return
    own = parse_broker(request.config.getoption("--broker"), settings=settings)
    own.start()
    try:
        yield own
    finally:
        own.stop()


@pytest.fixture(autouse=True)
def nothing_left_on(broker: Broker) -> Iterator[None]:
    """Take out what a failed test left in the broker."""
    yield
    agent = broker.load_agents()[0]
    loaded = {rule.name for rule in Agent(agent).rules()}
    for defect in broker_defects():
        if loaded.intersection(rule_names(defect.text)):
            switch_off(agent, defect)


@pytest.mark.parametrize(
    "defect", [broker_defect(name) for name in sorted(EXPERIMENTS)], ids=lambda defect: defect.name
)
def test_a_defect_has_its_effect_only_while_it_is_on(
    request: pytest.FixtureRequest, broker: Broker, defect: BrokerDefect
) -> None:
    effect = EXPERIMENTS[defect.name]
    with configured(request, broker, {**dict(defect.settings), **effect.settings}) as chosen:
        agent = chosen.load_agents()[0]
        with switched(agent, defect):
            assert seen(effect.defective, lambda: observe(chosen, effect.experiment)) == effect.defective
            assert was_reached(agent, defect)
        assert seen(effect.sound, lambda: observe(chosen, effect.experiment)) == effect.sound


def test_switching_may_be_repeated(fixture: TopicFixture) -> None:
    defect = broker_defect("check-removed")
    fixture.send(fixture.producer(), 1)
    switch_on(fixture.agent, defect)
    switch_on(fixture.agent, defect)
    assert is_on(fixture.agent, defect)
    switch_off(fixture.agent, defect)
    switch_off(fixture.agent, defect)
    assert not is_on(fixture.agent, defect)


def test_a_defect_that_was_never_reached_is_reported(fixture: TopicFixture) -> None:
    with switched(fixture.agent, broker_defect("pushed-not-reset")):
        fixture.send(fixture.producer(), 1)
        assert not was_reached(fixture.agent, broker_defect("pushed-not-reset"))


def test_a_defect_that_does_not_fit_the_broker_is_a_harness_error_and_is_removed(fixture: TopicFixture) -> None:
    switch_on(fixture.agent, MISFIT)
    fixture.send(fixture.producer(), 1)
    with pytest.raises(HarnessError, match="'defect misfit'"):
        switch_off(fixture.agent, MISFIT)
    assert not is_on(fixture.agent, MISFIT)
    assert "defect misfit" not in [rule.name for rule in Agent(fixture.agent).rules()]


def test_a_defect_ends_with_its_process_and_is_then_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = AgentAddress(host="127.0.0.1", port=server.getsockname()[1])
    switch_off(address, broker_defect("check-removed"))
    with pytest.raises(AgentGone):
        switch_on(address, broker_defect("check-removed"))
