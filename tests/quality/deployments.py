"""What a start, a kill and a restart cost on each kind of local broker: the same steps on each, in turns, in one run.

A step counts until a message sent after it is confirmed. Times of the processor are those of all Java processes of the
broker, from the step's beginning to the confirmation; the resident memory is that after the step. The machine and the
hour are the same for all kinds, so that ratios mean something where seconds do not. It is no test: a slow day fails
nothing.

    python -m tests.quality.deployments [--rounds 3] [--brokers standalone:4.0.8,4.0.8]
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import click
import psutil

from conformance.brokers.deployment import Deployment
from conformance.brokers.interface import Broker, Capability
from conformance.brokers.select import parse_broker
from conformance.brokers.size import Size
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.wait import retry, wait_until

TOPIC = "persistent://public/default/measured"
PATIENCE_S = 120.0

Measured = tuple[float, float, float]
"""Seconds, seconds of the processor, and resident megabytes."""


def await_confirmation(broker: Broker) -> None:
    """Have a message stored; an owner that is not ready yet is asked again."""
    retry(lambda: _confirm(broker), PATIENCE_S)


def _confirm(broker: Broker) -> None:
    client = WireClient.connect(broker.addresses.service, timeout_s=PATIENCE_S)
    try:
        producer = client.open_producer(TOPIC, name=None, timeout_s=PATIENCE_S)
        assert isinstance(producer.answer(producer.send(1, b"x"), timeout_s=PATIENCE_S), Receipt)
    finally:
        client.abort()


def javas() -> Mapping[int, psutil.Process]:
    """The Java processes that run below this one."""
    return {one.pid: one for one in psutil.Process().children(recursive=True) if one.name() == "java"}


def processor_s() -> dict[int, float]:
    return {pid: sum(java.cpu_times()[:2]) for pid, java in javas().items()}


def measured(broker: Broker, step: Callable[[], None]) -> Measured:
    before, began = processor_s(), time.perf_counter()
    step()
    await_confirmation(broker)
    seconds, after = time.perf_counter() - began, processor_s()
    used = sum(spent - before.get(pid, 0.0) for pid, spent in after.items())
    return seconds, used, sum(java.memory_info().rss for java in javas().values()) / 2**20


def bounce(broker: Broker) -> None:
    broker.kill()
    broker.start()


def round_of(text: str) -> dict[str, Measured]:
    """One round on a broker of its own."""
    broker = parse_broker(text)
    try:
        found = {"start": measured(broker, broker.start)}
        if Capability.KILL in broker.capabilities:
            found["kill"] = measured(broker, lambda: bounce(broker))
        found["graceful restart"] = measured(broker, broker.restart)
        return found
    finally:
        broker.stop()


def takeover(release: str) -> Measured:
    """Kill the owner of a topic; the other broker of two takes it over."""
    deployment = parse_broker(release, size=Size(brokers=2))
    assert isinstance(deployment, Deployment)
    try:
        deployment.start()
        await_confirmation(deployment)
        owner = deployment.owner_of(TOPIC)
        assert owner is not None
        (other,) = (broker for broker in deployment.brokers if broker is not owner)

        def lose_owner() -> None:
            owner.kill()
            owner.end_session()
            assert wait_until(lambda: deployment.owner_of(TOPIC) is other, PATIENCE_S)

        return measured(other, lose_owner)
    finally:
        deployment.stop()


@click.command()
@click.option("--rounds", default=3)
@click.option("--brokers", default="standalone:4.0.8,4.0.8", help="by commas; the first is the measure")
def main(rounds: int, brokers: str) -> None:
    texts = brokers.split(",")
    every: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for number in range(rounds + 1):
        for text in texts:
            for step, values in round_of(text).items():
                if number:  # what is made once is made in a round before the first
                    every[step, text].append(values)
    medians = {key: tuple(map(statistics.median, zip(*values, strict=True))) for key, values in every.items()}
    for (step, text), values in sorted(medians.items()):
        first = medians.get((step, texts[0]), values)
        words = (
            f"{value:7.1f} {unit} ({value / measure:4.2f})"
            for value, measure, unit in zip(values, first, ("s", "CPU s", "MB"), strict=True)
        )
        print(f"{step:<18}{text:<22}{'  '.join(words)}")


if __name__ == "__main__":
    main()
