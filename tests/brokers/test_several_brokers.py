"""Tests of a deployment of two brokers and three bookies: takeovers, frozen owners, lost bookies, other ZooKeepers."""

from __future__ import annotations

import contextlib
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest

from conformance.brokers.deployment import Deployment, DeploymentBroker
from conformance.brokers.interface import Addresses, Capability
from conformance.brokers.select import parse_broker
from conformance.brokers.size import Size
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.harness_error import HarnessError
from conformance.lockstep.settings.dispatchers import Dispatchers
from conformance.wait import retry, wait_until

TIMEOUT_S = 60.0
SOON_S = 3.0
"""How long to wait for an answer that must not come."""


@pytest.fixture(scope="module")
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    text: str = request.config.getoption("--broker")
    if text.startswith(("container:", "pulsar:", "standalone:")):
        pytest.skip("--broker names no release")
    of_one = parse_broker(text)
    assert isinstance(of_one, DeploymentBroker)
    deployment = Deployment(of_one.deployment.release, size=Size(brokers=2, bookies=3))
    deployment.start()
    yield deployment
    deployment.stop()


@dataclass
class Topic:
    """A topic of its own, with messages that are numbered on and known to be confirmed."""

    deployment: Deployment
    name: str = field(default_factory=lambda: f"persistent://public/default/{uuid.uuid4().hex}")
    confirmed: list[int] = field(default_factory=list)

    @property
    def owner(self) -> DeploymentBroker:
        found = wait_until(lambda: self.deployment.owner_of(self.name), TIMEOUT_S)
        assert found is not None
        return found

    @property
    def survivor(self) -> DeploymentBroker:
        owner = self.owner
        return next(one for one in self.deployment.brokers if one is not owner)

    def send(self, broker: DeploymentBroker) -> None:
        """Have a broker that owns the topic, or is about to, store the next message."""

        def attempt() -> None:
            client = WireClient.connect(broker.addresses.service, timeout_s=TIMEOUT_S)
            try:
                producer = client.open_producer(self.name, name=None, timeout_s=TIMEOUT_S)
                number = 1 + len(self.confirmed)
                outcome = producer.answer(producer.send(number, b"%d" % number), timeout_s=TIMEOUT_S)
                if not isinstance(outcome, Receipt):
                    raise HarnessError(str(outcome))
                self.confirmed.append(number)
            finally:
                client.abort()

        retry(attempt, TIMEOUT_S, may_pass=lambda _: True, pause_s=0.1)

    def send_to_new_owner(self, broker: DeploymentBroker) -> None:
        """The same, once the broker has taken the topic over: until then it still redirects to the former owner."""
        own_url = broker.addresses.service_url
        assert wait_until(lambda: broker.process.probe.owner(self.name) == own_url, TIMEOUT_S)
        self.send(broker)

    def stored(self, broker: DeploymentBroker) -> list[int]:
        client = WireClient.connect(broker.addresses.service, timeout_s=TIMEOUT_S)
        try:
            log = read_log(client, self.name, timeout_s=TIMEOUT_S)
            return [sequence_id for entry in log for sequence_id, _ in entry.messages]
        finally:
            client.abort()


@pytest.fixture
def topic(deployment: Deployment) -> Topic:
    topic = Topic(deployment)
    topic.send(topic.owner)
    return topic


def test_a_broker_that_ends_while_others_start_is_started_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of two brokers of 2.10.1 does that create the same node in the metadata store; here it is killed."""
    first, second = deployment.brokers
    start, starts = DeploymentBroker.start_process, list[str]()

    def start_and_lose_the_second_once(broker: DeploymentBroker) -> None:
        start(broker)
        starts.append(broker.label)
        if broker is second and starts.count(broker.label) == 1:
            broker.process.end(signal.SIGKILL)

    deployment.kill()
    with monkeypatch.context() as patch:
        patch.setattr(DeploymentBroker, "start_process", start_and_lose_the_second_once)
        deployment.start()
    assert starts == [first.label, second.label, second.label]
    assert deployment.is_alive()


def test_all_brokers_are_of_one_cluster_and_name_the_same_owner(deployment: Deployment, topic: Topic) -> None:
    assert all(broker.is_alive() for broker in deployment.brokers)
    owners = {broker.process.probe.owner(topic.name) for broker in deployment.brokers}
    assert owners == {topic.owner.addresses.service_url}


@pytest.mark.parametrize("how", ["kill", "shut_down"])
def test_another_broker_takes_over_with_all_that_was_confirmed(topic: Topic, how: str) -> None:
    owner, survivor = topic.owner, topic.survivor
    getattr(owner, how)()
    owner.end_session()
    try:
        topic.send(survivor)
        assert topic.stored(survivor) == topic.confirmed == [1, 2]
        assert topic.owner is survivor
    finally:
        owner.start()
    assert owner.is_alive()


def test_an_owner_that_is_cut_off_from_zookeeper_confirms_nothing_after_a_takeover(topic: Topic) -> None:
    owner, survivor = topic.owner, topic.survivor
    client = WireClient.connect(owner.addresses.service, timeout_s=TIMEOUT_S)
    try:
        producer = client.open_producer(topic.name, name="p", timeout_s=TIMEOUT_S)
        assert isinstance(producer.answer(producer.send(2, b"2"), timeout_s=TIMEOUT_S), Receipt)
        topic.confirmed.append(2)
        owner.cut_off()
        assert owner.end_session()
        topic.send_to_new_owner(survivor)
        with contextlib.suppress(HarnessError):  # no answer: the broker closes the producer, or needs another ledger
            assert not isinstance(producer.answer(producer.send(4, b"4"), timeout_s=SOON_S), Receipt)
        assert topic.stored(survivor) == topic.confirmed == [1, 2, 3]
    finally:
        client.abort()
        owner.kill()
        owner.start()
    assert owner.is_alive()


def test_a_frozen_owner_whose_session_ends_loses_its_topics(topic: Topic) -> None:
    owner, survivor = topic.owner, topic.survivor
    owner.pause()
    try:
        assert owner.end_session()
        topic.send_to_new_owner(survivor)
    finally:
        owner.resume()
    assert wait_until(lambda: owner.process.probe.owner(topic.name) == survivor.addresses.service_url, TIMEOUT_S)
    topic.send(survivor)
    assert topic.stored(survivor) == topic.confirmed == [1, 2, 3]


def test_without_one_of_three_bookies_messages_are_stored_on(deployment: Deployment, topic: Topic) -> None:
    deployment.lose_bookie(0, "kill")
    try:
        topic.send(topic.owner)
    finally:
        deployment.restore_bookie(0)
    assert topic.stored(topic.owner) == topic.confirmed == [1, 2]
    assert deployment.members.bookies[0].is_registered


@pytest.mark.parametrize("how", ["restart", "freeze"])
def test_brokers_outlive_a_zookeeper_that_is_away_and_that_returns_by_itself(
    deployment: Deployment, topic: Topic, how: str
) -> None:
    owner, store = topic.owner, deployment.zookeeper.store
    before = psutil.Process(deployment.zookeeper.require_running().pid())
    getattr(deployment.zookeeper, how)()
    assert wait_until(lambda: not before.is_running() or before.status() == psutil.STATUS_STOPPED, SOON_S)
    topic.send(owner)
    deployment.zookeeper.await_return()
    assert store.answers()
    assert topic.owner is owner
    assert topic.stored(owner) == topic.confirmed == [1, 2]


@dataclass(frozen=True)
class SeenByLanes:
    """What lanes know of the brokers of a rolling upgrade."""

    name: str
    addresses: Addresses
    capabilities: frozenset[Capability]


def test_each_broker_of_a_rolling_upgrade_owns_the_topics_of_some_namespaces(deployment: Deployment) -> None:
    admin = Admin(deployment.addresses.admin)
    brokers = SeenByLanes("3.3.6,4.0.8", deployment.addresses, deployment.capabilities)
    tenant = uuid.uuid4().hex
    assert deployment.cluster is not None
    admin.create_tenant(tenant, clusters=[deployment.cluster])
    asked = f"{tenant}/asked"
    admin.create_namespace(asked)
    dispatchers = Dispatchers(brokers, lambda: asked)  # type: ignore[arg-type]
    owners = []
    for lane in (1, 2, 3, 4):
        namespace = f"{tenant}/lane-{lane}-on"
        admin.create_namespace(namespace)
        topic = f"persistent://{namespace}/t"
        dispatchers.spread(topic, admin)
        known = {broker.process.probe.known_owner(topic) for broker in deployment.brokers}
        assert len(known) == 1, "a broker that would ask another one may become the owner for the next request"
        assert None not in known
        admin.create_topic(topic)
        owners.append(Topic(deployment, topic).owner.label)
    assert owners == ["broker 2", "broker 2", "broker 1", "broker 2"], "by the checksums of their names"
    assert dispatchers.are_alike
    assert dispatchers.drains_on(topic) is None, "nothing to say where all are alike"
