"""What every kind of broker promises, as tests that are the same for all kinds.

A test module of one kind makes a subclass whose name starts with ``Test`` and gives it two fixtures: ``broker``,
started and shared by the module's tests, which leave it running, and ``make_broker``, which makes more of the kind.
What a kind cannot do is skipped, with the reason.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import pulsar
import pytest
import urllib3

from conformance.brokers.interface import Broker, Capability
from conformance.brokers.startup.listener import TAP_LISTENER
from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.proxy import Proxy
from tests.waits import eventually

MakeBroker = Callable[[], Broker]

_CLIENT_DEADLINE_MS = 20_000
_WIRE_DEADLINE_S = 20.0
_PREFIX = f"persistent://public/default/{uuid.uuid4().hex}-"


class BrokerContract:
    """The promises; see the module."""

    def test_the_broker_is_alive_and_reports_its_version(self, broker: Broker) -> None:
        assert broker.is_alive()
        answer = urllib3.request("GET", f"{broker.addresses.admin_url}/admin/v2/brokers/version")
        assert broker.version == answer.data.decode().strip()
        assert broker.version[0].isdigit()

    def test_a_published_message_can_be_read_at_the_same_address(self, broker: Broker) -> None:
        publish(broker, "published", ["one", "two"])
        assert read(broker, "published") == ["one", "two"]

    def test_only_clients_that_request_the_proxy_are_sent_to_it(self, broker: Broker) -> None:
        if broker.addresses.proxy_port is None:
            pytest.skip("its configuration is not ours")
        name = f"proxied-{uuid.uuid4().hex}"
        topic = f"{_PREFIX}{name}"
        buffer = EventBuffer()
        with Proxy(broker.addresses.service_url, record=buffer, port=broker.addresses.proxy_port) as proxy:
            publish(broker, name, ["one"])
            for url in (broker.addresses.service_url, proxy.url):
                for listener_name, found in ((None, broker.addresses.service_url), (TAP_LISTENER, proxy.url)):
                    # For a moment, a broker repeats its last answer, to another listener too (apache/pulsar#26244).
                    eventually(partial(is_sent_to, found, topic, url=url, listener_name=listener_name))
            with OfficialClient(proxy.url, timeout_s=_WIRE_DEADLINE_S, listener_name=TAP_LISTENER) as official:
                consumer = official.subscribe(topic, "s", kind="Shared", initial="earliest", consumer_name="c")
                assert consumer.receive(timeout_s=_WIRE_DEADLINE_S) is not None
                assert [one.consumer for one in buffer.commands("MESSAGE")] == ["c"]

    def test_a_killed_broker_is_restarted_with_its_data_and_addresses(self, broker: Broker) -> None:
        needs(broker, Capability.KILL)
        before = broker.addresses
        publish(broker, "killed", ["one", "two"])
        broker.kill()
        assert not broker.is_alive()
        broker.start()
        assert broker.addresses == before
        assert read(broker, "killed") == ["one", "two"]

    def test_a_restart_keeps_data_and_addresses_and_may_change_settings_which_then_stay(self, broker: Broker) -> None:
        needs(broker, Capability.RESTART)
        publish(broker, "restarted", ["one", "two"])
        before = broker.addresses, broker.version, dict(broker.configuration)
        with Admin(broker.addresses.admin_url) as admin:
            default = admin.runtime_configuration()["brokerDeduplicationEnabled"]
            other = {"true": "false", "false": "true"}[default]
            for settings, expected in (({"brokerDeduplicationEnabled": other}, other), (None, other), ({}, default)):
                broker.restart(settings)
                assert admin.runtime_configuration()["brokerDeduplicationEnabled"] == expected
        assert (broker.addresses, broker.version, dict(broker.configuration)) == before
        assert read(broker, "restarted") == ["one", "two"]

    def test_a_paused_broker_does_not_answer_until_it_is_resumed(self, broker: Broker) -> None:
        needs(broker, Capability.PAUSE)
        publish(broker, "paused", ["one"])
        broker.pause()
        try:
            eventually(lambda: not broker.is_alive())
        finally:
            broker.resume()
        eventually(broker.is_alive)
        assert read(broker, "paused") == ["one"]

    def test_the_agent_listens_if_there_is_one(self, broker: Broker) -> None:
        needs(broker, Capability.DEFECTS)
        agent = broker.load_agents()[0]
        assert _accepts(agent.host, agent.port)
        assert broker.load_agents()[0] == agent

    def test_the_agent_can_be_loaded_again_after_a_restart(self, broker: Broker) -> None:
        needs(broker, Capability.DEFECTS)
        needs(broker, Capability.RESTART)
        before = broker.load_agents()[0]
        broker.restart()
        assert broker.load_agents()[0] == before
        assert _accepts(before.host, before.port)

    def test_an_operation_without_its_capability_is_a_harness_error(self, broker: Broker) -> None:
        operations = {
            Capability.RESTART: broker.restart,
            Capability.KILL: broker.kill,
            Capability.PAUSE: broker.pause,
            Capability.DEFECTS: broker.load_agents,
        }
        lacking = operations.keys() - broker.capabilities
        if not lacking:
            pytest.skip(f"{broker.name} lacks none of them")
        for capability in lacking:
            with pytest.raises(HarnessError):
                operations[capability]()
        assert broker.is_alive()

    def test_two_brokers_run_side_by_side_and_leave_no_process(self, broker: Broker, make_broker: MakeBroker) -> None:
        needs(broker, Capability.RESTART)
        publish(broker, "of-the-first", ["one"])
        with started(make_broker()) as other:
            assert other.is_alive()
            assert _ports(other).isdisjoint(_ports(broker))
            assert read(other, "of-the-first") == []
            ports = _ports(other)
        assert not other.is_alive()
        assert not any(_accepts("127.0.0.1", port) for port in ports)
        assert broker.is_alive()

    def test_a_broker_that_was_not_started_is_a_harness_error_and_can_be_stopped(self, make_broker: MakeBroker) -> None:
        broker = make_broker()
        with pytest.raises(HarnessError, match=r"not been (started|asked)"):
            _ = broker.version
        broker.stop()
        broker.stop()


def needs(broker: Broker, capability: Capability) -> None:
    """Skip the test if the broker lacks the capability."""
    if capability not in broker.capabilities:
        pytest.skip(f"{broker.name} lacks the capability {capability.value!r}")


@contextmanager
def started(broker: Broker) -> Iterator[Broker]:
    """Start the broker, and stop it at the end, come what may."""
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def publish(broker: Broker, topic: str, payloads: list[str]) -> None:
    """Send the payloads, one after the other, to a topic of this run, where a subscription keeps them.

    Without one, a broker may delete them: it does so when it switches deduplication off.
    """
    with _client(broker) as client:
        client.subscribe(_PREFIX + topic, "keeps", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(_PREFIX + topic, batching_enabled=False)
        for payload in payloads:
            producer.send(payload.encode())


def read(broker: Broker, topic: str) -> list[str]:
    """Return all payloads in the topic."""
    with _client(broker) as client:
        reader = client.create_reader(_PREFIX + topic, pulsar.MessageId.earliest)
        payloads = []
        while reader.has_message_available():
            payloads.append(reader.read_next(_CLIENT_DEADLINE_MS).data().decode())
        return payloads


@contextmanager
def _client(broker: Broker) -> Iterator[pulsar.Client]:
    silent = logging.getLogger("pulsar-client-of-the-contract")
    silent.setLevel(logging.CRITICAL)
    client = pulsar.Client(broker.addresses.service_url, logger=silent)
    try:
        yield client
    finally:
        client.close()


def is_sent_to(address: str, topic: str, *, url: str, listener_name: str | None) -> bool:
    """Whether a look-up at ``url`` answers this address."""
    client = WireClient.connect(url, timeout_s=_WIRE_DEADLINE_S, listener_name=listener_name)
    try:
        return client.lookup(topic, timeout_s=_WIRE_DEADLINE_S) == address
    finally:
        client.close()


def _ports(broker: Broker) -> set[int]:
    ports = {urlsplit(url).port for url in (broker.addresses.service_url, broker.addresses.admin_url)}
    return {port for port in ports if port is not None}


def _accepts(host: str, port: int) -> bool:
    with socket.socket() as attempt:
        attempt.settimeout(2)
        return attempt.connect_ex((host, port)) == 0
