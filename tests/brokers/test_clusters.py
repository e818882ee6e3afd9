"""Tests of clusters with geo-replication: messages of one are replicated to the others, link by link."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from itertools import permutations

import pytest

from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.clients.admin.stored_log import stored_entries
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clusters import QUICK, Clusters, RunningCluster
from conformance.harness_error import HarnessError
from conformance.proxy.event_buffer import EventBuffer
from tests.waits import eventually

TIMEOUT_S = 20.0

Rings = dict[tuple[str, str], EventBuffer]


def brokers(request: pytest.FixtureRequest, count: int) -> list[Broker]:
    text: str = request.config.getoption("--broker")
    if text.startswith("pulsar:"):
        pytest.skip("--broker names a cluster that is not ours to wire")
    return [parse_broker(text, settings=QUICK, with_agent=False) for _ in range(count)]


@pytest.fixture(scope="module")
def rings() -> Rings:
    """What the links told, by source and target."""
    return {}


@pytest.fixture(scope="module")
def three(request: pytest.FixtureRequest, rings: Rings) -> Iterator[Clusters]:
    """Three clusters, shared by the tests of this module."""

    def recorder(source: str, target: str) -> EventBuffer:
        return rings.setdefault((source, target), EventBuffer())

    with Clusters(brokers(request, 3), recorder=recorder) as clusters:
        yield clusters


@pytest.fixture
def topic(three: Clusters) -> str:
    """A topic that is replicated among all three."""
    return f"persistent://{three.create_namespace(uuid.uuid4().hex[:8])}/t"


def publish(cluster: RunningCluster, topic: str, *payloads: str) -> None:
    with OfficialClient(cluster.broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        producer = client.open_producer(topic, name=f"p-{cluster.label}")
        for number, payload in enumerate(payloads, 1):
            assert isinstance(producer.answer(producer.send(number, payload.encode()), timeout_s=TIMEOUT_S), Receipt)


def stored(cluster: RunningCluster, topic: str) -> list[str]:
    """What a cluster has of a topic, in the order in which it came first; markers left out.

    A link that breaks by itself has what was on its way sent again, so a message may be there twice.
    """
    entries = stored_entries(cluster.admin, topic)
    return list(dict.fromkeys(entry.payload.decode() for entry in entries if entry.marker_type is None))


def has(cluster: RunningCluster, topic: str, *payloads: str) -> bool:
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    return topic in cluster.admin.topics(namespace) and sorted(stored(cluster, topic)) == sorted(payloads)


def all_have(clusters: Clusters, labels: str, topic: str, *payloads: str, deadline_s: float = 60.0) -> None:
    for label in labels:
        eventually(partial(has, clusters.cluster(label), topic, *payloads), deadline_s=deadline_s)


def test_a_message_is_replicated_to_all_other_clusters_over_their_links(
    three: Clusters, rings: Rings, topic: str
) -> None:
    a, b, c = (three.cluster(label) for label in three.labels)
    publish(a, topic, "a1", "a2")
    publish(b, topic, "b1")
    all_have(three, "ABC", topic, "a1", "a2", "b1")
    for cluster in (a, b, c):
        assert [payload for payload in stored(cluster, topic) if payload.startswith("a")] == ["a1", "a2"]
    origins = {
        entry.payload.decode(): entry.replicated_from
        for entry in stored_entries(c.admin, topic)
        if entry.marker_type is None
    }
    assert origins == {"a1": a.name, "a2": a.name, "b1": b.name}
    assert {link for link in permutations("ABC", 2) if rings[link].commands("SEND")} >= {
        ("A", "B"), ("A", "C"), ("B", "A"), ("B", "C")
    }  # fmt: skip


def test_a_link_is_cut_and_heals_in_one_direction_while_the_others_stay_connected(three: Clusters, topic: str) -> None:
    publish(three.cluster("A"), topic, "before")
    all_have(three, "BC", topic, "before")
    three.cut("A", "B")
    try:
        publish(three.cluster("A"), topic, "from a")
        publish(three.cluster("B"), topic, "from b")
        all_have(three, "AC", topic, "before", "from a", "from b")
        assert stored(three.cluster("B"), topic) == ["before", "from b"]
    finally:
        three.heal("A", "B")
    all_have(three, "B", topic, "before", "from b", "from a")


def test_messages_held_on_a_link_arrive_only_when_released(three: Clusters, topic: str) -> None:
    publish(three.cluster("A"), topic, "before")
    all_have(three, "BC", topic, "before")
    three.hold("A", "B", "messages")
    try:
        publish(three.cluster("A"), topic, "held up")
        all_have(three, "C", topic, "before", "held up")
        assert three.is_held("A", "B")
        assert stored(three.cluster("B"), topic) == ["before"]
    finally:
        three.release("A", "B")
    assert not three.is_held("A", "B")
    all_have(three, "B", topic, "before", "held up")


def test_the_log_has_the_snapshot_markers_of_a_replicated_subscription(three: Clusters, topic: str) -> None:
    a = three.cluster("A")
    client = WireClient.connect(a.broker.addresses.service_url, timeout_s=TIMEOUT_S)
    try:
        client.subscribe(topic, "s", kind="Exclusive", replicated=True, timeout_s=TIMEOUT_S)
        publish(a, topic, "m")
        eventually(lambda: 12 in markers(a, topic))
    finally:
        client.abort()
    found = markers(a, topic)
    assert found.index(10) < found.index(11) < found.index(12)


def test_messages_of_either_of_two_clusters_are_in_both(request: pytest.FixtureRequest) -> None:
    with Clusters(brokers(request, 2)) as two:
        topic = f"persistent://{two.create_namespace('pair')}/t"
        publish(two.cluster("A"), topic, "a1", "a2")
        publish(two.cluster("B"), topic, "b1")
        all_have(two, "AB", topic, "a1", "a2", "b1")


def markers(cluster: RunningCluster, topic: str) -> list[int]:
    return [entry.marker_type for entry in stored_entries(cluster.admin, topic) if entry.marker_type is not None]


def test_clusters_have_different_ledger_ids(three: Clusters, topic: str) -> None:
    publish(three.cluster("A"), topic, "m")
    all_have(three, "BC", topic, "m")
    first = {next(stored_entries(three.cluster(label).admin, topic)).position for label in three.labels}
    assert len(first) == len(three.labels)


def test_one_cluster_or_four_are_refused_before_anything_is_started(request: pytest.FixtureRequest) -> None:
    for count in (1, 4):
        with pytest.raises(HarnessError, match=f"two or three clusters, not with {count}"):
            Clusters(brokers(request, count))


def test_an_unknown_cluster_is_named_in_one_sentence(three: Clusters) -> None:
    with pytest.raises(HarnessError, match="There is no cluster D: A, B, C are up"):
        three.cluster("D")
