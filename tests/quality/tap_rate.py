"""What the proxy lets through: the same messages through it and past it, in turns, in one run.

pulsar-client, in a process of its own as users have it, sends so many messages as fast as they are confirmed, one entry
each, and then receives and acknowledges them. The broker, the machine and the hour are the same for both, so the ratio
means something where the rates do not. Neither says what the proxy could carry if clients and broker were faster, so
its own time on the processor is measured too: this process does nothing else meanwhile. It is no test: a slow day fails
nothing.

    python -m tests.quality.tap_rate [--broker 4.0.8] [--messages 40000] [--size 100] [--rounds 5]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Service
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.proxy import HOST, Proxy
from conformance.tap.request import TapRequest
from conformance.tap.run import Tap

SETTINGS = {"managedLedgerMaxEntriesPerLedger": "50000", "maxMessageSize": "5242880"}
PATIENCE_S = 120.0
TAPPED = "through the proxy"
WAYS = ("past it", "past it again", TAPPED, "through it, with digests", "through the tap")
CLIENT = """
import sys, time, threading, os, pulsar
url, topic, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True,
                                  max_pending_messages=2000, send_timeout_millis=0)
client.subscribe(topic, "s").close()
payload, done, answered = b"x" * size, threading.Event(), [0]
def on_answer(result, message_id):
    answered[0] += 1
    if answered[0] == count:
        done.set()
began = time.perf_counter()
for _ in range(count):
    producer.send_async(payload, on_answer)
assert done.wait(100), answered
sent_s = time.perf_counter() - began
consumer = client.subscribe(topic, "s", receiver_queue_size=5000)
began = time.perf_counter()
for _ in range(count):
    consumer.acknowledge(consumer.receive(20000))
received_s = time.perf_counter() - began
one_by_one = []
for _ in range(200):
    began = time.perf_counter()
    producer.send(payload)
    one_by_one.append(time.perf_counter() - began)
client.close()
print(count / sent_s, count / received_s, 1e3 * sorted(one_by_one)[100])
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages a second that were sent and received, and what a message, there and back, cost this process."""

    sent_per_s: float
    received_per_s: float
    own_us: float
    send_ms: float
    """The median time of a send that waits for its receipt."""


def turn(url: str, topic: str, messages: int, size_bytes: int) -> Turn:
    """Have a fresh client's process send messages, and then receive them."""
    before_s = time.process_time()
    command = [sys.executable, "-c", CLIENT, url, topic, str(messages), str(size_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    own_us = 1e6 * (time.process_time() - before_s) / messages
    sent, received, send_ms = done.stdout.split()
    return Turn(float(sent), float(received), own_us, float(send_ms))


@contextmanager
def closing_tap(service: Service, folder: Path) -> Iterator[Tap]:
    """A tap without the admin API, which records the history of its turns."""
    tap = Tap(TapRequest(host=HOST, port=0, service=service, admin=None, history=folder), say=click.echo)
    yield tap
    counts = tap.stop().counts
    click.echo(f"the tap recorded {counts.events} events")


@click.command()
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--messages", default=40_000, show_default=True)
@click.option("--size", "size_bytes", default=100, show_default=True, help="Bytes of a payload.")
@click.option("--rounds", default=5, show_default=True)
def main(broker: str, messages: int, size_bytes: int, rounds: int) -> None:
    """Print messages a second, each way past the proxy and through it, and the ratios by round."""
    started = parse_broker(broker, settings=SETTINGS)
    started.start()
    found: dict[str, list[Turn]] = {way: [] for way in WAYS}
    buffer = EventBuffer()
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    try:
        past = started.addresses.service_url
        with (
            TemporaryDirectory() as folder,
            Proxy(past, record=buffer) as proxy,
            Proxy(past, record=buffer, with_digests=True) as digesting,
            closing_tap(Service(past), Path(folder)) as tap,
        ):
            urls = dict(zip(WAYS, (past, past, proxy.url, digesting.url, tap.url), strict=True))
            with Admin(started.addresses.admin_url) as admin:
                for number in range(rounds + 1):
                    for way, url in urls.items():
                        topic = f"persistent://public/default/rate-{uuid.uuid4().hex[:8]}"
                        admin.create_topic(topic)
                        measured = turn(url, topic, messages, size_bytes)
                        if number > 0:  # the first round warms the broker up
                            found[way].append(measured)
    finally:
        started.stop()
    report(found, buffer.count, messages, size_bytes)
    grown_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb
    click.echo(f"this process, with both proxies and the last {len(buffer.events())} events, grew by {grown_mb:.0f} MB")


def report(found: dict[str, list[Turn]], events: int, messages: int, size_bytes: int) -> None:
    """Print what was measured."""
    click.echo(
        f"{messages} messages of {size_bytes} bytes in each turn, {events} events recorded, {time.strftime('%F')}"
    )
    click.echo(
        "                            sent/s (of past it)    received/s (of past it)  a send   the proxy's own time"
    )
    for way in WAYS:
        turns, past = found[way], found[WAYS[0]]
        sent = statistics.median(one.sent_per_s for one in turns)
        received = statistics.median(one.received_per_s for one in turns)
        own_us = statistics.median(one.own_us for one in turns)
        of_sent = statistics.median(a.sent_per_s / b.sent_per_s for a, b in zip(turns, past, strict=True))
        of_received = statistics.median(a.received_per_s / b.received_per_s for a, b in zip(turns, past, strict=True))
        carries = f"{own_us:6.1f} us a message, {1e6 / own_us:7.0f}/s" if own_us > 1 else "     -"
        send_ms = statistics.median(one.send_ms for one in turns)
        click.echo(
            f"{way:26}  {sent:9.0f} ({of_sent:5.2f})      {received:9.0f} ({of_received:5.2f})    {send_ms:6.2f} ms "
            f"{carries}"
        )


if __name__ == "__main__":
    main()
