"""Late subscriptions are created at their time, each once, and then their consumers subscribe."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import cast

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.history.lane_recorder import LaneRecorder
from conformance.history.recorded import FIRST_OF_ALL, Kind
from conformance.soak.cluster import ALONE, SoakCluster
from conformance.soak.late_subscriptions import LateSubscriptions
from conformance.soak.plan import Later
from conformance.soak.workers import Clients
from tests.pipeline.histories import random_histories
from tests.soak.test_quiesce import Listening


def test_a_late_subscription_is_created_at_its_time_and_its_consumer_subscribes(
    broker: Broker, admin: Admin, tmp_path: Path
) -> None:
    planned = [Later(at_s=at_s, topic="t", cluster=ALONE, name=name) for at_s, name in ((1.0, "a"), (2.0, "b"))]
    listening, homes = Listening(), dict[tuple[str, str], str]()
    expected = [("t", name, ALONE) for name in "ab"]
    with closing(LaneRecorder(tmp_path, run="r", lane="w")) as recording:
        service = broker.addresses.service
        cluster = SoakCluster(label=ALONE, broker=broker, service=service, admin=admin, recording=recording)
        late = LateSubscriptions([cluster], cast(Clients, listening), planned, homes)
        late.create_due(0.5)
        assert (homes, listening.reconnected) == ({}, [])
        late.create_due(1.5)
        assert (set(homes), listening.reconnected) == ({("t", "a")}, expected[:1])
        late.create_due(2.5)
        late.create_due(3.5)
        assert (set(homes), listening.reconnected) == ({("t", "a"), ("t", "b")}, expected)
    created = [one for one in random_histories.read(tmp_path) if one.kind is Kind.BEGIN]
    assert sorted((one.subscription or "", (one.ledger, one.entry), one.replicated) for one in created) == [
        (name, FIRST_OF_ALL, True) for name in "ab"
    ]
