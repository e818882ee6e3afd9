"""Subscriptions are awaited, helped, and reported if no help works."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored
from conformance.clients.admin.types import InternalStats, LedgerStats
from conformance.clients.wire.client import WireClient
from conformance.history.lane_recorder import LaneRecorder
from conformance.history.recorded import UNLOAD
from conformance.soak import quiesce
from conformance.soak.cluster import ALONE, SoakCluster
from conformance.soak.plan import TopicPlan
from conformance.soak.quiesce import QuiescePhase
from conformance.soak.request import QuiesceResult
from conformance.soak.workers import Clients
from conformance.workers.client_plan import TopicKind
from model.log import Position
from tests.waits import TIMEOUT_S, eventually


class Listening:
    """Client processes that no longer send, and only receive."""

    are_quiet = True

    def __init__(self) -> None:
        self.reconnected: list[tuple[str, str, str | None]] = []

    def reconnect(self, topic: str, subscription: str, *, cluster: str | None = None) -> None:
        self.reconnected.append((topic, subscription, cluster))


@pytest.fixture
def topic(admin: Admin, client: WireClient) -> TopicPlan:
    """A topic with three messages; one subscription has acknowledged all of them and another one two."""
    name = f"persistent://public/default/quiesce-{uuid.uuid4().hex}"
    admin.create_topic(name)
    consumers = [client.subscribe(name, one, kind="Shared", initial="earliest", timeout_s=TIMEOUT_S) for one in "ab"]
    producer = client.open_producer(name, name="p", timeout_s=TIMEOUT_S)
    for number in range(3):
        producer.answer(producer.send(number + 1, b"x"), timeout_s=TIMEOUT_S)
    for consumer, acknowledged in zip(consumers, (3, 2), strict=True):
        consumer.flow(3)
        for number in range(3):
            delivery = consumer.receive(timeout_s=TIMEOUT_S)
            assert delivery is not None
            if number < acknowledged:
                consumer.ack([delivery.position])
        consumer.close()
    return TopicPlan(name=name, kind=TopicKind.KEYED, subscriptions=(("a", "Shared"), ("b", "Shared")))


def quiesced(
    broker: Broker,
    admin: Admin,
    topic: TopicPlan,
    listening: Listening,
    folder: Path,
    *,
    labels: Sequence[str] = (ALONE,),
    tick: Callable[[], None] = lambda: None,
) -> QuiesceResult:
    """Quiesce a topic of the broker, which stands for each cluster that has a label."""
    with closing(LaneRecorder(folder, run="r", lane="w")) as recording:
        service = broker.addresses.service
        clusters = [
            SoakCluster(label=one, broker=broker, service=service, admin=admin, recording=recording) for one in labels
        ]
        return QuiescePhase(clusters, cast(Clients, listening), [topic], {}).run(tick)


def test_a_subscription_without_progress_is_helped_twice_and_then_stuck(
    broker: Broker, admin: Admin, topic: TopicPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiesce, "PATIENCE_S", 0.2)
    listening = Listening()
    found = quiesced(broker, admin, topic, listening, tmp_path)
    assert [one for one, _ in found.helped] == [(topic.name, "b")] * 2
    assert listening.reconnected == [(topic.name, "b", None)]
    ((stuck, left),) = found.stuck
    assert stuck == (topic.name, "b")
    assert len(left) == 1
    (unload,) = [row for path in tmp_path.glob("*/*.parquet") for row in pq.read_table(path).to_pylist()]
    assert (unload["fault"], unload["topic"]) == (UNLOAD, topic.name)


def test_a_subscription_whose_stats_are_not_answered_is_stuck(
    broker: Broker, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody serves a topic that does not exist; one whose bookies are lost cannot be loaded either."""
    monkeypatch.setattr(quiesce, "ANSWER_PATIENCE_S", 0.2)
    name = f"persistent://public/default/quiesce-{uuid.uuid4().hex}"
    gone = TopicPlan(name=name, kind=TopicKind.KEYED, subscriptions=(("a", "Shared"),))
    found = quiesced(broker, admin, gone, Listening(), tmp_path)
    assert found == QuiesceResult(helped=(), stuck=(((name, "a"), frozenset()),))


def test_a_subscription_acknowledged_in_time_is_drained(
    broker: Broker, admin: Admin, topic: TopicPlan, tmp_path: Path
) -> None:
    admin.skip_all(topic.name, "b")
    assert quiesced(broker, admin, topic, Listening(), tmp_path) == QuiesceResult(helped=(), stuck=())


def test_a_drained_subscription_that_waits_for_a_replicator_is_not_helped_soon(
    broker: Broker, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replicator of the topic leads to an unreachable cluster."""
    monkeypatch.setattr(quiesce, "PATIENCE_S", 0.0)
    away = f"away-{uuid.uuid4().hex}"
    admin.create_cluster(away, admin_url="http://127.0.0.1:1", service_url="pulsar://127.0.0.1:1")
    here = admin.runtime_configuration()["clusterName"]
    admin.create_tenant(away, clusters=[here, away])
    admin.create_namespace(f"{away}/n")
    admin.set_replication_clusters(f"{away}/n", [here, away])
    name = f"persistent://{away}/n/t"
    admin.create_topic(name)
    admin.create_subscription(name, "a", earliest=True)
    eventually(lambda: away in admin.stats(name).replication)
    topic = TopicPlan(name=name, kind=TopicKind.KEYED, subscriptions=(("a", "Shared"),), clusters=("A",))
    listening, looks = Listening(), itertools.count()

    class EnoughError(Exception):
        pass

    def tick() -> None:
        if next(looks) == 4:
            raise EnoughError

    with pytest.raises(EnoughError):
        quiesced(broker, admin, topic, listening, tmp_path, labels=("A", "B"), tick=tick)
    admin.set_replication_clusters(f"{away}/n", [here])
    assert listening.reconnected == []


@pytest.mark.parametrize(
    ("confirmed", "ledgers", "last"),
    [
        ("7:4", [(7, 0)], Position(7, 4)),
        ("7:-1", [(7, 0)], None),
        ("7:-1", [(5, 3), (6, 0), (7, 0)], Position(5, 2)),
    ],
)
def test_the_last_entry_may_be_in_an_earlier_ledger(
    confirmed: str, ledgers: list[tuple[int, int]], last: Position | None
) -> None:
    ledger_stats = tuple(LedgerStats(ledger_id=ledger, entries=entries) for ledger, entries in ledgers)
    assert last_stored(InternalStats(last_confirmed_entry=confirmed, ledgers=ledger_stats)) == last
