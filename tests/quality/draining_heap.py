"""The heap of draining hashes in a live broker (KEY-12), compared with the document's 80 bytes each and 5 MB at
most.

One consumer receives a message of each of many hashes and acknowledges none. Others join, so that more and more of
these hashes drain; in the end everything is acknowledged. At each stage a class histogram of the broker's JVM, after
full collections, shows the number and size of the entries for draining hashes, and the growth of arrays, which are the
tables of these entries. The cost of a hash is their sum, divided by the number of draining hashes in the broker's
stats. It is no test, and an upper bound, because consumers and other parts of the broker have arrays, too.

The histogram comes from ``jcmd``, which only a JDK has; without it this ends with a sentence on that.

    python -m tests.quality.draining_heap [--broker 4.0.8] [--hashes 60000] [--joining 1 --joining 2 --joining 10]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click
import psutil

from conformance.brokers.installation.java import find_java
from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import NamespacePolicies, Retention, SubscriptionStats
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer
from conformance.harness_error import HarnessError
from model.key_shared.hashes import keys_with_hashes_apart
from model.log import Position

ENTRY = "org.apache.pulsar.broker.service.DrainingHashesTracker$DrainingHashEntry"
ARRAYS = ("[I", "[Ljava.lang.Object;")
"""What the tables of the broker's map are: one of hashes, one of entries."""
DOCUMENT_BYTES, DOCUMENT_WORST_BYTES = 80, 5_000_000
SUBSCRIPTION = "s"
IN_FLIGHT = 1_000
"""How many messages are sent in one go."""
COLLECTIONS = 4
"""How many full collections it takes until one moves everything: others leave gaps, which the JVM shows as arrays."""
PATIENCE_S = 60.0
"""How long to wait for any one answer of a busy broker."""
SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "50000",
    "maxUnackedMessagesPerConsumer": "0",
    "maxUnackedMessagesPerSubscription": "0",
}
"""Ledgers as brokers are shipped with, and no limit to what may be unacknowledged."""


@dataclass(frozen=True, slots=True)
class Held:
    """What objects of one class there are on a heap."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What so many draining hashes cost."""

    draining: int
    entries: Held
    arrays_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.entries.size_bytes + self.arrays_bytes


class Heap:
    """The heap of a broker's JVM."""

    def __init__(self, broker: Broker, jcmd: Path) -> None:
        self._jcmd = jcmd
        self._pid = _java_of(broker)

    def histogram(self) -> Mapping[str, Held]:
        """What is there of each class, gaps left out; a harness error if the JVM does not say."""
        looks = [self._look() for _ in range(COLLECTIONS)]
        return {
            name: min((look.get(name, Held()) for look in looks), key=lambda held: held.size_bytes) for name in looks[0]
        }

    def _look(self) -> Mapping[str, Held]:
        asked = subprocess.run(
            [self._jcmd, str(self._pid), "GC.class_histogram"], capture_output=True, text=True, timeout=PATIENCE_S
        )
        if asked.returncode != 0:
            raise HarnessError(
                f"jcmd could not look at the broker's heap: {asked.stderr.strip() or asked.stdout.strip()}"
            )
        return dict(_classes(asked.stdout))


def find_jcmd() -> Path:
    """The JDK's tool, from beside the Java that brokers run on or from the path."""
    beside = find_java().executable.resolve().with_name("jcmd")
    found = str(beside) if beside.exists() else shutil.which("jcmd")
    if found is None:
        raise HarnessError(
            "The heap of a broker is looked at with jcmd, which comes with a JDK and not with a JRE: none found."
        )
    return Path(found)


def _java_of(broker: Broker) -> int:
    """The id of the broker's process, which is the only Java that was started from here."""
    java = [each.pid for each in psutil.Process().children(recursive=True) if each.name() == "java"]
    if len(java) != 1:
        raise HarnessError(f"the process of {broker.name} is not to be found: {len(java)} Javas were started from here")
    return java[0]


def _classes(listing: str) -> Iterator[tuple[str, Held]]:
    """Read lines of ``number: instances bytes class (module)``; what is not one of them is passed over."""
    for line in listing.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].rstrip(":").isdecimal():
            yield words[3], Held(int(words[1]), int(words[2]))


class Subject:
    """A topic with a Key_Shared subscription on a broker of its own."""

    def __init__(self, broker: Broker) -> None:
        self._admin = Admin(broker.addresses.admin_url)
        namespace = f"public/heap-{uuid.uuid4().hex[:12]}"
        self._admin.create_namespace(namespace, NamespacePolicies(retention=Retention(), deduplication=False))
        self._topic = f"persistent://{namespace}/topic"
        self._client = WireClient.connect(broker.addresses.service_url, timeout_s=PATIENCE_S)
        self._joined = 0

    def join(self) -> WireConsumer:
        """Have one more consumer join, which is given nothing."""
        self._joined += 1
        return self._client.subscribe(
            self._topic,
            SUBSCRIPTION,
            kind="Key_Shared",
            initial="earliest",
            consumer_name=f"c{self._joined}",
            timeout_s=PATIENCE_S,
        )

    def fill(self, keys: tuple[str, ...]) -> None:
        """Send a message of each key."""
        producer = self._client.open_producer(self._topic, name="p", timeout_s=PATIENCE_S)
        for first in range(0, len(keys), IN_FLIGHT):
            some = enumerate(keys[first : first + IN_FLIGHT], first + 1)
            for ticket in [producer.send(number, b"", partition_key=key) for number, key in some]:
                producer.answer(ticket, timeout_s=PATIENCE_S)

    def stats(self) -> SubscriptionStats:
        """The broker's stats of the subscription."""
        return self._admin.stats(self._topic).subscriptions[SUBSCRIPTION]

    def close(self) -> None:
        """Let go of the broker."""
        self._client.abort()
        self._admin.close()


def measured(broker: Broker, jcmd: Path, hashes: int, joining: tuple[int, ...]) -> Iterator[Cost]:
    """What is on the heap when so many consumers have joined the first one, and when all is acknowledged."""
    subject, heap = Subject(broker), Heap(broker, jcmd)
    try:
        first = subject.join()
        subject.fill(keys_with_hashes_apart(hashes))
        positions = _taken(first, hashes)
        before = heap.histogram()

        def cost() -> Cost:
            draining, after = subject.stats().draining_hashes_count, heap.histogram()
            return Cost(draining=draining, entries=after.get(ENTRY, Held()), arrays_bytes=_growth(before, after))

        for there, number in pairwise((0, *sorted(joining))):
            for _ in range(number - there):
                subject.join()
            yield cost()
        for start in range(0, hashes, IN_FLIGHT):
            first.ack(positions[start : start + IN_FLIGHT], timeout_s=PATIENCE_S)
        yield cost()
    finally:
        subject.close()


def _taken(consumer: WireConsumer, count: int) -> list[Position]:
    """Take so many messages."""
    consumer.flow(count)
    deliveries = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
    positions = [delivery.position for delivery in deliveries if delivery is not None]
    if len(positions) < count:
        raise HarnessError(f"only {len(positions)} of {count} messages were delivered")
    return positions


def _growth(before: Mapping[str, Held], after: Mapping[str, Held]) -> int:
    return sum(after[each].size_bytes - before[each].size_bytes for each in ARRAYS)


@click.command()
@click.option("--broker", "chosen", default="4.0.8", show_default=True)
@click.option("--hashes", type=click.IntRange(1, 65535), default=60_000, show_default=True)
@click.option("--joining", type=click.IntRange(1), multiple=True, default=(1, 2, 10), show_default=True)
def main(chosen: str, hashes: int, joining: tuple[int, ...]) -> None:
    """Print what draining hashes cost, by how many there are."""
    broker = parse_broker(chosen, settings=SETTINGS)
    try:
        jcmd = find_jcmd()
        broker.start()
        click.echo(
            f"{broker.version}; the document says {DOCUMENT_BYTES} bytes a hash, {DOCUMENT_WORST_BYTES:,} at worst"
        )
        click.echo("draining    entries    their bytes    arrays' bytes    all bytes    a hash")
        for cost in measured(broker, jcmd, hashes, joining):
            each = f"{cost.total_bytes / cost.draining:7.1f}" if cost.draining else "      -"
            click.echo(
                f"{cost.draining:8}   {cost.entries.count:8}   {cost.entries.size_bytes:12,}   {cost.arrays_bytes:14,}"
                f"   {cost.total_bytes:10,}   {each}"
            )
    except HarnessError as harness_error:
        click.echo(harness_error, err=True)
        sys.exit(2)
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
