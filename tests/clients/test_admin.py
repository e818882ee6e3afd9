"""The admin interface, on a real broker."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from conformance.brokers.interface import Broker
from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.client import Admin, AdminError
from conformance.clients.admin.http import AdminHttp, topic_path
from conformance.clients.admin.types import (
    AcknowledgedRange,
    NamespacePolicies,
    PublisherStats,
    Retention,
    TopicStats,
    parse_ranges,
)
from conformance.clients.outcomes import ConnectionLost, NoAnswer, Receipt
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from model.log import Position
from tests.clients.wire.test_consumer import take, write
from tests.waits import TIMEOUT_S, eventually

DEDUPLICATION_CURSOR = "pulsar.dedup"


def test_the_broker_reports_its_release_and_its_health(admin: Admin, broker: Broker) -> None:
    assert admin.broker_version() == broker.version
    assert admin.is_healthy()
    assert "public" in admin.tenants()
    assert admin.clusters()


def test_the_runtime_configuration_has_the_settings_of_the_start(admin: Admin, broker: Broker) -> None:
    running = admin.runtime_configuration()
    assert running["maxMessageSize"] == broker.configuration["maxMessageSize"]


def test_a_dynamic_setting_can_be_changed_and_cleared(admin: Admin) -> None:
    name = "dispatchThrottlingRatePerTopicInMsg"
    admin.set_dynamic_configuration(name, "100000")
    assert admin.dynamic_configuration()[name] == "100000"
    admin.clear_dynamic_configuration(name)
    assert name not in admin.dynamic_configuration()


def test_a_setting_that_is_not_dynamic_is_refused(admin: Admin) -> None:
    with pytest.raises(AdminError) as refused:
        admin.set_dynamic_configuration("maxMessageSize", "5")
    assert refused.value.status == 412


def test_a_topic_is_created_and_deleted(admin: Admin, namespace: str) -> None:
    topic = f"persistent://{namespace}/comes and goes-{uuid.uuid4().hex[:6]}"
    admin.create_topic(topic)
    assert topic in admin.topics(namespace)
    with pytest.raises(AdminError) as refused:
        admin.create_topic(topic)
    assert refused.value.status == 409
    admin.delete_topic(topic)
    assert topic not in admin.topics(namespace)
    with pytest.raises(AdminError) as refused:
        admin.stats(topic)
    assert refused.value.status == 404
    assert refused.value.reason


def test_partitions_are_separate_topics(admin: Admin, topic: str, namespace: str) -> None:
    admin.create_topic(f"{topic}-parts", partitions=2)
    assert admin.partitions(f"{topic}-parts") == 2
    assert admin.partitions(topic) == 0
    assert f"{topic}-parts-partition-1" in admin.topics(namespace)


def test_stats_show_the_clients_and_the_backlog(admin: Admin, client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    consumer = client.subscribe(topic, "s", kind="Shared", initial="earliest", consumer_name="c", timeout_s=TIMEOUT_S)
    for i in (1, 2, 3):
        producer.answer(producer.send(i, b"x"), timeout_s=TIMEOUT_S)
    consumer.flow(2)
    take(consumer, 2)
    stats = admin.stats(topic)
    assert stats.deduplication_status == "Enabled"
    assert stats.messages_in_counter == 3
    assert [publisher.producer_name for publisher in stats.publishers] == ["p"]
    subscription = stats.subscriptions["s"]
    assert (subscription.type, subscription.backlog, subscription.unacked_messages) == ("Shared", 3, 2)
    assert subscription.durable
    (one,) = subscription.consumers
    assert (one.consumer_name, one.unacked_messages, one.available_permits) == ("c", 2, 0)


def test_a_replicator_among_the_publishers_is_told_from_a_producer() -> None:
    # 3.0 to 3.2 list the replicators of other clusters with a topic's own publishers.
    listed = b'{"publishers": [{"producerName": "p"}, {"producerName": "pulsar.repl.east-->west"}, {"producerId": 7}]}'
    stats = msgspec.json.decode(listed, type=TopicStats)
    assert [publisher.is_replicator for publisher in stats.publishers] == [False, True, False]


def test_internal_stats_show_the_log_and_the_cursors(admin: Admin, client: WireClient, topic: str) -> None:
    consumer = client.subscribe(topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    positions = write(client, topic, 8)
    consumer.ack([positions[0], positions[3], positions[6]])
    internal = admin.internal_stats(topic)
    assert internal.last_confirmed_entry == str(positions[-1])
    assert internal.number_of_entries == 8
    assert {ledger.ledger_id for ledger in internal.ledgers} >= {position.ledger for position in positions}
    cursor = internal.cursors["s"]
    assert Position.parse(cursor.mark_delete_position) == positions[0]
    assert [r.last for r in cursor.acknowledged_ranges] == [positions[3], positions[6]]
    assert cursor.messages_consumed_counter == 3


def test_the_deduplication_snapshot_can_be_read(admin: Admin, client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for i in range(1, 13):
        producer.answer(producer.send(10 * i, b"x"), timeout_s=TIMEOUT_S)

    def snapshot() -> dict[str, int]:
        return admin.internal_stats(topic).cursors[DEDUPLICATION_CURSOR].properties

    eventually(lambda: snapshot().get("p", 0) >= 50)
    assert snapshot()["p"] % 10 == 0


def test_ranges_are_in_the_metadata_store_after_an_unload(admin: Admin, client: WireClient, topic: str) -> None:
    consumer = client.subscribe(topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    positions = write(client, topic, 4)
    consumer.ack([positions[0], positions[2]])
    # An unload while the cursor's ledger opens loses the first ack: the deviation unload-while-cursor-ledger-opens.
    eventually(lambda: admin.internal_stats(topic).cursors["s"].state == "Open")
    admin.unload(topic)
    stored = admin.internal_info(topic).cursors["s"]
    assert stored.mark_delete is not None
    assert stored.mark_delete.position == positions[0]
    assert [r.last.position for r in stored.individual_deleted_messages] == [positions[2]]


def test_an_entry_of_any_kind_can_be_read(admin: Admin, client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    chunk = pb.MessageMetadata(uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=4)
    tickets = [
        producer.send(1, b"\x00\xff", partition_key="k", properties={"Ab": "b,{}"}, metadata=chunk),
        producer.send_batch([(5, b"a"), (8, b"")]),
    ]
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    positions = [o.position for o in outcomes if isinstance(o, Receipt) and o.position is not None]
    single, batch = (admin.read_entry(topic, position) for position in positions)
    assert [single.position, batch.position] == positions
    assert (single.producer_name, single.sequence_id, single.payload) == ("p", 1, b"\x00\xff")
    assert (single.partition_key, single.properties) == ("k", {"Ab": "b,{}"})
    assert (single.uuid, single.chunk_id, single.num_chunks) == ("u", 0, 2)
    assert single.messages == (b"\x00\xff",)
    assert (batch.sequence_id, batch.highest_sequence_id, batch.messages) == (5, 8, (b"a", b""))
    assert (single.marker_type, single.replicated_from) == (None, None)
    with pytest.raises(AdminError) as refused:
        admin.read_entry(topic, Position(10**9, 0))
    assert refused.value.status in (404, 500)


def test_a_cursor_can_be_moved_without_a_consumer(admin: Admin, client: WireClient, topic: str) -> None:
    positions = write(client, topic, 6)
    admin.create_subscription(topic, "s", earliest=True)
    admin.create_subscription(topic, "at the end", earliest=False)

    def backlog(subscription: str) -> int:
        return admin.stats(topic).subscriptions[subscription].backlog

    assert (backlog("s"), backlog("at the end")) == (6, 0)
    admin.skip(topic, "s", 2)
    assert admin.peek(topic, "s", 1).position == positions[2]
    assert admin.peek(topic, "s", 2).position == positions[3]
    admin.reset_cursor(topic, "s", positions[1])
    assert admin.peek(topic, "s", 1).position == positions[1]
    admin.skip_all(topic, "s")
    assert backlog("s") == 0
    admin.delete_subscription(topic, "s")
    assert set(admin.stats(topic).subscriptions) == {"at the end"}


def test_old_messages_can_be_expired(admin: Admin, client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    long_ago = pb.MessageMetadata(publish_time=1)
    for i in (1, 2, 3):
        producer.answer(producer.send(i, b"x", metadata=long_ago if i < 3 else None), timeout_s=TIMEOUT_S)
    admin.create_subscription(topic, "s", earliest=True)
    admin.expire(topic, "s", older_than_s=3600)
    eventually(lambda: admin.stats(topic).subscriptions["s"].backlog == 1)


def test_the_last_message_id_can_be_read(admin: Admin, client: WireClient, topic: str) -> None:
    assert admin.last_message_id(topic).entry == -1
    assert admin.last_message_id(topic) == admin.last_message_id(topic)
    assert write(client, topic, 2)[-1] == admin.last_message_id(topic)


def test_deduplication_follows_the_topic_policy_and_otherwise_that_of_the_namespace(
    admin: Admin, namespace: str
) -> None:
    namespace = f"{namespace}-off"
    admin.create_namespace(namespace)
    admin.set_retention(namespace)
    topic = f"persistent://{namespace}/t"
    admin.create_topic(topic)

    def follows(status: str) -> None:
        eventually(lambda: admin.stats(topic).deduplication_status == status)

    follows("Disabled")
    admin.set_namespace_deduplication(namespace, True)
    follows("Enabled")
    assert admin.topic_deduplication(topic) is None
    admin.set_topic_deduplication(topic, False)
    follows("Disabled")
    assert admin.topic_deduplication(topic) is False
    admin.clear_topic_deduplication(topic)
    follows("Enabled")
    assert admin.topic_deduplication(topic) is None


def test_snapshot_intervals_are_accepted(admin: Admin, namespace: str, topic: str) -> None:
    admin.set_deduplication_snapshot_interval(namespace, 60)
    admin.set_topic_deduplication_snapshot_interval(topic, 3)


def test_a_namespace_is_created_with_its_policies_and_deleted(admin: Admin) -> None:
    namespace = f"public/gone-{uuid.uuid4().hex[:6]}"
    policies = NamespacePolicies(
        retention=Retention(time_minutes=5, size_mb=7),
        deduplication=True,
        deduplication_snapshot_interval_s=9,
        replication_clusters=(admin.runtime_configuration()["clusterName"],),
    )
    admin.create_namespace(namespace, policies)
    assert namespace in admin.namespaces("public")
    admin.delete_namespace(namespace)
    assert namespace not in admin.namespaces("public")


def test_a_tenant_can_be_created_once(admin: Admin) -> None:
    tenant = f"tenant-{uuid.uuid4().hex[:6]}"
    clusters = [cluster for cluster in admin.clusters() if cluster != "global"]
    admin.create_tenant(tenant, clusters=clusters)
    assert tenant in admin.tenants()
    with pytest.raises(AdminError) as refused:
        admin.create_tenant(tenant, clusters=clusters)
    assert refused.value.status == 409


def test_an_unreachable_broker_is_a_lost_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    admin = Admin(f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionLost):
        admin.broker_version()
    assert not admin.is_healthy()


def test_a_request_without_an_answer_times_out() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Admin(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.2) as admin,
        pytest.raises(NoAnswer),
    ):
        admin.broker_version()


@pytest.mark.parametrize(
    "topic", ["t", "public/default/t", "persistent://public/t", "other://a/b/c", "persistent://a//c"]
)
def test_a_topic_that_is_not_fully_named_is_refused_in_one_sentence(topic: str) -> None:
    with pytest.raises(HarnessError, match="not a full topic name"):
        topic_path(topic)


def test_names_are_quoted_in_paths() -> None:
    assert topic_path("persistent://a/b/c d?") == "persistent/a/b/c%20d%3F"


@pytest.mark.parametrize(("rates", "highest"), [((), 0.0), ((0.5,), 0.5), ((0.5, 2.0, 0.0), 2.0)])
def test_the_rate_of_chunks_is_the_highest_of_a_publisher(rates: tuple[float, ...], highest: float) -> None:
    publishers = tuple(PublisherStats(chunked_message_rate=rate) for rate in rates)
    assert TopicStats(publishers=publishers).chunked_message_rate == highest


def test_acknowledged_ranges_are_parsed_as_the_broker_writes_them() -> None:
    assert parse_ranges("[]") == ()
    assert parse_ranges("[(3:-1..3:2], (4:1..5:0]]") == parse_ranges("[(3:-1..3:2],(4:1..5:0]]")
    assert parse_ranges("[(3:-1..3:2],(4:1..5:0]]") == (
        AcknowledgedRange(Position(3, -1), Position(3, 2)),
        AcknowledgedRange(Position(4, 1), Position(5, 0)),
    )


@pytest.mark.parametrize("text", ["", "[", "(3:0..3:2]", "[(3:0..3:2]", "[(3:0..3:2),(4:1..4:5]]", "[(3..4]]"])
def test_text_that_is_no_list_of_ranges_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a list"):
        parse_ranges(text)


@contextmanager
def closing_idle_connections() -> Iterator[tuple[str, list[str]]]:
    """A server that closes each connection at its second request, without an answer; its address, and the requests."""
    asked: list[str] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for number in range(2):
                    request = lines.readline().decode().strip()
                    length = 0
                    while (header := lines.readline().strip().lower()) not in (b"", b"\r\n"):
                        length = int(header.partition(b":")[2]) if header.startswith(b"content-length") else length
                    lines.read(length)
                    if not request:
                        break
                    asked.append(request.rpartition(" ")[0])
                    if number == 0:
                        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_get_is_sent_again_if_its_idle_connection_was_closed_and_nothing_else_is() -> None:
    with closing_idle_connections() as (url, asked):
        http = AdminHttp(url, timeout_s=TIMEOUT_S)
        assert [http.request("GET", "a").status, http.request("GET", "b").status] == [200, 200]
        assert asked == ["GET /admin/v2/a", "GET /admin/v2/b", "GET /admin/v2/b"]
        with pytest.raises(ConnectionLost):
            http.request("POST", "c", {})
        assert asked[3:] == ["POST /admin/v2/c"]
        http.close()
