"""Replicated subscriptions begin when it is time, each once, and then their consumers come."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import cast

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.history.recorded import FIRST_OF_ALL, Kind
from conformance.history.recording import Recording
from conformance.soak.clients import Clients
from conformance.soak.plan import Later
from conformance.soak.sites import ALONE, Site
from conformance.soak.subscribing import Subscribing
from conformance.soak.words import Renew
from tests.pipeline import soup
from tests.soak.test_healing import Listening


def test_a_subscription_begins_when_it_is_time_and_its_consumer_comes(
    broker: Broker, admin: Admin, tmp_path: Path
) -> None:
    planned = [Later(at_s=at_s, topic="t", cluster=ALONE, name=name) for at_s, name in ((1.0, "a"), (2.0, "b"))]
    listening, whereabouts = Listening(), dict[tuple[str, str], str]()
    come = [Renew(topic="t", subscription=name, cluster=ALONE) for name in "ab"]
    with closing(Recording(tmp_path, run="r", lane="w")) as recording:
        service = broker.addresses.service
        site = Site(label=ALONE, broker=broker, service=service, admin=admin, recording=recording)
        subscribing = Subscribing([site], cast(Clients, listening), planned, whereabouts)
        subscribing.make_due(0.5)
        assert (whereabouts, listening.told) == ({}, [])
        subscribing.make_due(1.5)
        assert (set(whereabouts), listening.told) == ({("t", "a")}, come[:1])
        subscribing.make_due(2.5)
        subscribing.make_due(3.5)
        assert (set(whereabouts), listening.told) == ({("t", "a"), ("t", "b")}, come)
    told = [one for one in soup.read(tmp_path) if one.kind is Kind.BEGIN]
    assert sorted((one.subscription or "", (one.ledger, one.entry), one.replicated) for one in told) == [
        (name, FIRST_OF_ALL, True) for name in "ab"
    ]
