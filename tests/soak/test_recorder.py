"""The documentation's example records a sound history, and a modified one is not sound."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from pathlib import Path

import pulsar
import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.topic import VerificationSetting
from conformance.recorder import Recorder
from conformance.topic_reader import first_ledger_of
from tests.pipeline.histories import random_histories

DOCUMENT = Path(__file__).parents[2] / "docs" / "histories.md"


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A namespace of this test, with retention."""
    name = f"public/recorder-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(name)
    admin.set_retention(name)
    return name


def example(broker: Broker, namespace: str) -> str:
    """The documentation's example with this broker and a separate topic."""
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    code = found[1]
    for written, here in (
        ("pulsar://localhost:6650", broker.addresses.service_url),
        ("http://localhost:8080", broker.addresses.admin_url),
        ("public/default/orders", f"{namespace}/orders"),
    ):
        assert code.count(written) == 1
        code = code.replace(written, here)
    return code


def broken_in(folder: Path) -> set[str]:
    return random_histories.broken_in(
        random_histories.judged(random_histories.read(folder), setting=VerificationSetting(), rows_of_a_batch=1000)
    )


def test_the_example_of_the_documentation_records_a_sound_history(
    broker: Broker, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example(broker, namespace), str(DOCUMENT), "exec"), {})
    history = tmp_path / "history"
    recorded = random_histories.read(history)
    kinds = Counter(event.kind for event in recorded)
    assert {kinds[kind] for kind in (Kind.SEND, Kind.DISPATCH, Kind.ACK, Kind.LOG)} == {100}
    assert all(event.invoked_ns is not None for event in recorded)
    judged = random_histories.judged(recorded, setting=VerificationSetting(), rows_of_a_batch=1000)
    assert random_histories.broken_in(judged) == set()
    put_to_the_test = {name for name, (times, _) in judged.items() if times}
    assert put_to_the_test >= {
        *("lost", "missed", "mark delete over a hole", "positions rise", "one consumer at a time")
    }

    without_a_dispatch = tmp_path / "tampered"
    lost = next(event for event in recorded if event.kind is Kind.DISPATCH)
    with HistoryWriter(without_a_dispatch, "w") as writer:
        for event in recorded:
            if event is not lost:
                writer.record(event)
    assert broken_in(without_a_dispatch) == {"missed"}


def test_partitions_are_recorded_by_their_own_names(broker: Broker, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/recorded"
    shared = pulsar.ConsumerType.Shared
    service_url, admin_url = broker.addresses.service_url, broker.addresses.admin_url
    with Admin(admin_url) as admin:
        admin.create_topic(topic, partitions=2)
    client = pulsar.Client(service_url)
    with Recorder(tmp_path, run="r", lane="w") as recorder:
        consumer = recorder.consumer(client.subscribe(topic, "s", shared), shared)
        producer = recorder.producer(client.create_producer(topic, producer_name="p"))
        recorder.begin(admin_url, [topic])
        for number in range(10):
            producer.send(b"%d" % number, partition_key=f"k{number}")
        for _ in range(10):
            consumer.acknowledge(consumer.receive(timeout_millis=10_000))
        consumer.close()
        recorder.read_back(service_url, admin_url, [topic])
    client.close()
    partitions = {f"{topic}-partition-{number}" for number in range(2)}
    for kind in (Kind.SEND, Kind.DISPATCH, Kind.ACK, Kind.LOG, Kind.BEGIN, Kind.LOG_END, Kind.CURSOR):
        named = [event for event in random_histories.read(tmp_path) if event.kind is kind]
        assert {event.topic for event in named} == partitions, kind


def test_a_log_whose_beginning_was_trimmed_is_not_recorded_as_complete(broker: Broker, tmp_path: Path) -> None:
    topic = f"persistent://public/default/trimmed-{uuid.uuid4().hex}"  # where nothing is retained
    service_url, admin_url = broker.addresses.service_url, broker.addresses.admin_url
    client = pulsar.Client(service_url)
    with Recorder(tmp_path, run="r", lane="w") as recorder, Admin(admin_url) as admin:
        consumer = recorder.consumer(client.subscribe(topic, "s"), pulsar.ConsumerType.Exclusive)
        producer = recorder.producer(client.create_producer(topic, producer_name="p"))
        recorder.begin(admin_url, [topic])
        first = first_ledger_of(admin.internal_stats(topic))
        while first_ledger_of(admin.internal_stats(topic)) == first:
            producer.send(b"x")
            consumer.acknowledge(consumer.receive(timeout_millis=10_000))
            admin.trim(topic)
        recorder.read_back(service_url, admin_url, [topic])
    client.close()
    kinds = {event.kind for event in random_histories.read(tmp_path)}
    assert Kind.LOG_END not in kinds
    assert {Kind.CURSOR, Kind.DRAINED} <= kinds
    assert broken_in(tmp_path) == set()


def test_a_resent_message_is_a_duplicate_and_a_failed_send_is_unknown(broker: Broker, tmp_path: Path) -> None:
    namespace = f"public/recorder-{uuid.uuid4().hex[:8]}"
    with Admin(broker.addresses.admin_url) as admin:
        admin.create_namespace(namespace)
        admin.set_namespace_deduplication(namespace, True)
    client = pulsar.Client(broker.addresses.service_url)
    with Recorder(tmp_path, run="r", lane="w") as recorder:
        producer = recorder.producer(client.create_producer(f"persistent://{namespace}/t", producer_name="p"))
        producer.send(b"one")
        producer.send(b"one", sequence_id=1)
        with pytest.raises(pulsar.PulsarException):
            producer.send(b"x" * 6_000_000)
        answered: list[object] = []
        assert producer.send_async(b"two", lambda result, _id: answered.append(result)) == 3
        producer.flush()
    client.close()
    assert answered == [pulsar.Result.Ok]
    sends = sorted((event.sequence_id, event.outcome) for event in random_histories.read(tmp_path))
    assert sends == [(1, CallOutcome.DUPLICATE), (1, CallOutcome.OK), (2, CallOutcome.UNKNOWN), (3, CallOutcome.OK)]
