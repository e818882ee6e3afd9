"""Tests of the external broker: the contract of all brokers, on the session's broker taken as somebody else's."""

from __future__ import annotations

import pytest

from conformance.brokers.external import ExternalBroker
from conformance.brokers.interface import Addresses, Broker
from conformance.brokers.startup.ports import HOST, free_ports
from conformance.harness_error import HarnessError
from tests.brokers.contract import BrokerContract, MakeBroker


@pytest.fixture(scope="module")
def broker(broker: Broker) -> Broker:
    """The session's broker from outside."""
    external = ExternalBroker(broker.addresses)
    external.start()
    return external


@pytest.fixture(scope="module")
def make_broker(broker: Broker) -> MakeBroker:
    return lambda: ExternalBroker(broker.addresses)


class TestContract(BrokerContract):
    """An external broker is a broker."""


def test_stopping_leaves_the_broker_running(broker: Broker) -> None:
    broker.stop()
    assert broker.is_alive()


def test_an_unreachable_address_is_one_line_at_once() -> None:
    service, admin = free_ports(2)
    addresses = Addresses(service_url=f"pulsar://{HOST}:{service}", admin_url=f"http://{HOST}:{admin}")
    with pytest.raises(HarnessError, match=rf"^nothing listens at {HOST}:{service} [^\n]*; nothing .* {HOST}:{admin} "):
        ExternalBroker(addresses).start()
