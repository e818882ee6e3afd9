"""What several clusters cost, and how soon they follow: start-up, memory, and the way from an ack to the remotes.

Once in a snapshot period a message is published at one cluster, consumed and acknowledged there; how many periods go by
until all other clusters' subscriptions have passed it, by their own accounts. Both times are of the same run, so that
their ratio means something on a busy machine. It is no test: a slow day fails nothing.

    python -m tests.quality.clusters [--broker 4.0.8] [--period-ms 100 --period-ms 1000] [--rounds 30]
"""

from __future__ import annotations

import statistics
import time
import uuid
from itertools import permutations

import click
import psutil

from conformance.brokers.select import parse_broker
from conformance.clients.admin.stored_log import stored_positions
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer
from conformance.clients.wire.producer import WireProducer
from conformance.clusters import QUICK, Clusters, RunningCluster
from model.log import Position
from tests.waits import eventually

TIMEOUT_S = 60.0
SUBSCRIPTION = "s"
PERIOD = "replicatedSubscriptionsSnapshotFrequencyMillis"


@click.command()
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--period-ms", "periods_ms", default=[100, 1000], multiple=True, show_default=True)
@click.option("--rounds", default=30, show_default=True)
def main(broker: str, periods_ms: list[int], rounds: int) -> None:
    """Print a table: clusters, snapshot period, start-up, memory, and the periods from an ack to all remotes."""
    click.echo(f"{broker}, {rounds} messages each, {time.strftime('%F')}")
    click.echo("clusters  period ms  start s  MB each  periods from ack to remotes: median, nine of ten, most")
    for count in (2, 3):
        for period_ms in periods_ms:
            settings = {**QUICK, PERIOD: str(period_ms), "replicatedSubscriptionsSnapshotTimeoutSeconds": "30"}
            brokers = [parse_broker(broker, settings=settings, with_agent=False) for _ in range(count)]
            began = time.monotonic()
            with Clusters(brokers) as clusters:
                start_s = time.monotonic() - began
                periods = sorted(followed(clusters, period_ms / 1000, rounds))
                mid, late = statistics.median(periods), periods[len(periods) * 9 // 10]
                click.echo(
                    f"{count:8}  {period_ms:9}  {start_s:7.1f}  {resident_mb():7.0f}  "
                    f"{mid:27.1f}, {late:.1f}, {periods[-1]:.1f}"
                )


def resident_mb() -> float:
    """Memory of a broker's process, on average, in MB."""
    found = [one for one in psutil.Process().children(recursive=True) if one.name() == "java"]
    return statistics.mean(one.memory_info().rss for one in found) / 2**20


def followed(clusters: Clusters, period_s: float, rounds: int) -> list[float]:
    """For each message, how many periods after its ack all other clusters' subscriptions had passed it."""
    topic = f"persistent://{clusters.create_namespace(uuid.uuid4().hex[:8])}/t"
    for label in clusters.labels:
        clusters.cluster(label).admin.ensure_topic(topic)
    eventually(lambda: all(is_connected(clusters, link, topic) for link in permutations(clusters.labels, 2)))
    client = WireClient.connect(clusters.cluster("A").broker.addresses.service_url, timeout_s=TIMEOUT_S)
    try:
        consumer = client.subscribe(topic, SUBSCRIPTION, kind="Exclusive", replicated=True, timeout_s=TIMEOUT_S)
        producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        return _periods(clusters, topic, producer, consumer, period_s, rounds)
    finally:
        client.abort()


def _periods(
    clusters: Clusters, topic: str, producer: WireProducer, consumer: WireConsumer, period_s: float, rounds: int
) -> list[float]:
    remotes = [Remote(clusters.cluster(label), topic) for label in clusters.labels[1:]]
    waiting: dict[str, float] = {}
    periods: list[float] = []
    number = 0
    while len(periods) < rounds:
        number += 1
        message = f"m{number}"
        assert isinstance(producer.answer(producer.send(number, message.encode()), timeout_s=TIMEOUT_S), Receipt)
        consumer.flow(1)
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
        assert delivery is not None
        consumer.ack([delivery.position])
        waiting[message] = acked = time.monotonic()
        while time.monotonic() < acked + period_s:
            everywhere = set(waiting).intersection(*(remote.passed() for remote in remotes))
            periods += [(time.monotonic() - waiting.pop(one)) / period_s for one in everywhere]
            time.sleep(period_s / 50)
    return periods[:rounds]


def is_connected(clusters: Clusters, link: tuple[str, str], topic: str) -> bool:
    """Whether a replicator of the topic goes from one cluster to another."""
    source, target = (clusters.cluster(label) for label in link)
    replication = source.admin.stats(topic).replication.get(target.name)
    return replication is not None and replication.connected


class Remote:
    """Another cluster's account of the topic; each entry is read once."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        self._admin, self._topic = cluster.admin, topic
        self._read: dict[Position, str | None] = {}

    def passed(self) -> set[str]:
        """The messages that the subscription has passed here."""
        internal = self._admin.internal_stats(self._topic)
        for position in stored_positions(internal):
            if position not in self._read:
                entry = self._admin.read_entry(self._topic, position)
                self._read[position] = entry.payload.decode() if entry.marker_type is None else None
        cursor = internal.cursors.get(SUBSCRIPTION)
        mark_delete = Position.parse(cursor.mark_delete_position) if cursor is not None else Position(-1, -1)
        return {message for position, message in self._read.items() if message is not None and position <= mark_delete}


if __name__ == "__main__":
    main()
