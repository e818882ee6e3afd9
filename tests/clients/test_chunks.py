"""Chunks on a real broker: how pulsar-client splits and assembles messages, compared with the model of document 002.

Differences of its consumer and of a release's deduplication from the reference are variants of the model; each test
says which.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest

from conformance.brokers.interface import Broker
from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import NamespacePolicies, Retention
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt, SendError
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import Kind
from conformance.clients.wire.producer import WireProducer
from conformance.clients.wire.read_log import ParsedEntry, read_log
from model.chunking import assembly, deduplication
from model.chunking.assembly import Buffers, acknowledged_with, arrive
from model.chunking.chunks import Chunk, room, split
from model.chunking.deduplication import ChunkJudgement
from model.chunking.variants import ChunksVariant
from model.log import Position
from tests.waits import eventually

TIMEOUT_S = 10.0

CLIENT_3_13 = ChunksVariant(repeated_discards_buffer=True, discarded_not_redelivered=True, duplicates_not_acked=True)
"""How the consumer of pulsar-client 3.13.0 differs."""

EACH_DEDUPLICATED, ONLY_LAST_DEDUPLICATED = (
    ChunksVariant(each_deduplicated=True),
    ChunksVariant(only_last_deduplicated=True),
)


@pytest.fixture(scope="module")
def namespace_without_deduplication(admin: Admin) -> str:
    """A namespace without deduplication."""
    namespace = f"public/chunks-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace, NamespacePolicies(retention=Retention()))
    return namespace


@pytest.fixture
def topic_without_deduplication(admin: Admin, namespace_without_deduplication: str) -> str:
    """A topic without deduplication."""
    topic = f"persistent://{namespace_without_deduplication}/{uuid.uuid4().hex[:8]}"
    admin.create_topic(topic)
    return topic


@pytest.fixture
def official(broker: Broker) -> Iterator[OfficialClient]:
    """A client of pulsar-client."""
    with OfficialClient(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        yield client


def chunk_of(text: str) -> Chunk:
    """A chunk of one byte, as in ``a1/3``: the second of three of message a, or a whole message, as in ``x``."""
    chunk_id, chunks = map(int, text[1:].split("/")) if text[1:] else (0, 1)
    return Chunk(
        text[0] if chunks > 1 else "",
        ord(text[0]),
        chunk_id,
        chunks,
        chunks,
        chunk_id,
        chunk_id + 1,
    )


def metadata_of(chunk: Chunk) -> pb.MessageMetadata:
    if not chunk.is_split:
        return pb.MessageMetadata()
    return pb.MessageMetadata(
        uuid=chunk.uuid,
        chunk_id=chunk.chunk_id,
        num_chunks_from_msg=chunk.chunks,
        total_chunk_msg_size=chunk.total_bytes,
    )


def send(producer: WireProducer, chunk: Chunk) -> Position | None:
    """Send a crafted chunk; its payload is the name of its message. None: it is confirmed as a duplicate."""
    ticket = producer.send(chunk.sequence_id, bytes([chunk.sequence_id]), metadata=metadata_of(chunk))
    receipt = producer.answer(ticket, timeout_s=TIMEOUT_S)
    assert isinstance(receipt, Receipt)
    return receipt.position


def chunk_metadata(entry: ParsedEntry) -> tuple[str, int, int, int, int]:
    """The chunk metadata of an entry, and its size."""
    said = entry.metadata
    return said.uuid, said.chunk_id, said.num_chunks_from_msg, said.total_chunk_msg_size, len(entry.messages[0][1])


# ------------------------------------------------------------------------------------------------ splitting


def test_pulsar_client_splits_by_the_room_that_its_metadata_leaves(
    official: OfficialClient, client: WireClient, topic_without_deduplication: str, broker: Broker
) -> None:
    producer = official.open_producer(topic_without_deduplication, name="p", chunking=True)
    producer.answer(producer.send(1, b"x"), timeout_s=TIMEOUT_S)
    (first,) = read_log(client, topic_without_deduplication, timeout_s=TIMEOUT_S)
    limit_bytes = int(broker.configuration["maxMessageSize"])
    room_bytes = room(limit_bytes=limit_bytes, metadata_bytes=first.metadata.ByteSize())
    sizes = [room_bytes - 1, room_bytes, room_bytes + 1, 3 * room_bytes, 3 * room_bytes + 1]
    for sequence_id, size in enumerate(sizes, start=2):
        outcome = producer.answer(producer.send(sequence_id, b"x" * size), timeout_s=TIMEOUT_S)
        assert isinstance(outcome, Receipt)
    stored = [chunk_metadata(entry) for entry in read_log(client, topic_without_deduplication, timeout_s=TIMEOUT_S)[1:]]
    chunks = [
        chunk
        for sequence_id, size in enumerate(sizes, start=2)
        for chunk in split(uuid=f"p-{sequence_id}", sequence_id=sequence_id, payload_bytes=size, room_bytes=room_bytes)
    ]
    assert [one[1:] for one in stored] == [
        (c.chunk_id, c.chunks * c.is_split, c.total_bytes * c.is_split, c.end - c.start) for c in chunks
    ]
    uuids = {one[0] for one in stored}
    assert len(uuids) == 1 + len({chunk.uuid for chunk in chunks if chunk.is_split})


def test_a_message_too_large_without_chunking_is_refused_and_not_stored(
    official: OfficialClient, client: WireClient, topic_without_deduplication: str, broker: Broker
) -> None:
    producer = official.open_producer(topic_without_deduplication, name="p")
    payload = b"x" * int(broker.configuration["maxMessageSize"])
    outcome = producer.answer(producer.send(1, payload), timeout_s=TIMEOUT_S)
    assert isinstance(outcome, SendError)
    assert outcome.code == "MessageTooBig"
    assert read_log(client, topic_without_deduplication, timeout_s=TIMEOUT_S) == []


def test_a_reopened_producer_resends_a_message_with_the_same_uuid(
    official: OfficialClient, client: WireClient, topic_without_deduplication: str, broker: Broker
) -> None:
    payload = b"x" * int(broker.configuration["maxMessageSize"])
    for _ in range(2):
        producer = official.open_producer(topic_without_deduplication, name="p", chunking=True)
        producer.answer(producer.send(7, payload), timeout_s=TIMEOUT_S)
        producer.close()
    stored = read_log(client, topic_without_deduplication, timeout_s=TIMEOUT_S)
    assert [entry.metadata.chunk_id for entry in stored] == [0, 1, 0, 1]
    assert len({entry.metadata.uuid for entry in stored}) == 1


# ---------------------------------------------------------------------------------------------- assembling

SEQUENCES = [
    "a0/3 a1/3 a2/3 x",
    "a1/3 a2/3 x",
    "a0/3 a2/3 x",
    "a0/3 a2/3 a0/3 a1/3 a2/3 x",
    "a0/3 a1/3 a1/3 a2/3 x",
    "a0/3 a1/3 a0/3 a1/3 a2/3 x",
    "a0/2 a1/2 a1/2 x",
    "a0/2 a1/2 a0/2 a1/2 x",
    "a0/3 a2/3 a1/3 x",
    "a0/2 b0/2 a1/2 b1/2 x",
    "a0/2 b0/2 c0/2 a1/2 b1/2 c1/2 x",
]
"""Entries of a log, in order; each log ends with a small message that ends the waiting."""

LIMITS = [(10, False), (1, False), (1, True), (2, False), (2, True)]


def expected(chunks: Sequence[Chunk], limit: int, *, acks_discarded: bool) -> tuple[list[str], set[int]]:
    """What the model delivers, and what is acknowledged once all of that is, with the differences of pulsar-client."""
    buffers, delivered, acknowledged = Buffers(limit, acks_discarded), [], set()
    for position, chunk in enumerate(chunks):
        whole: assembly.Whole | None = assembly.Whole("", (position,))
        if chunk.is_split:
            buffers, came = arrive(buffers, chunk, position, variant=CLIENT_3_13)
            whole = came.whole
            acknowledged |= set(came.acknowledged)
        if whole is not None:
            delivered.append(chr(chunk.sequence_id) * chunk.chunks)
            acknowledged |= set(acknowledged_with(whole, variant=CLIENT_3_13))
    return delivered, acknowledged


@pytest.mark.parametrize(("limit", "acks_discarded"), LIMITS)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_pulsar_client_assembles_like_the_model_with_its_known_differences(
    official: OfficialClient,
    client: WireClient,
    admin: Admin,
    topic_without_deduplication: str,
    sequence: str,
    limit: int,
    acks_discarded: bool,
) -> None:
    chunks = [chunk_of(one) for one in sequence.split()]
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    positions = [send(producer, chunk) for chunk in chunks]
    delivered, acknowledged = expected(chunks, limit, acks_discarded=acks_discarded)
    consumer = official.subscribe(
        topic_without_deduplication,
        "s",
        kind="Exclusive",
        initial="earliest",
        pending_chunked=limit,
        acknowledges_discarded=acks_discarded,
    )
    got: list[str] = []
    while not got or got[-1] != "x":
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
        assert delivery is not None
        got.append(delivery.payload.decode())
        consumer.ack(delivery)
    assert got == delivered
    consumer.close()
    left = [position for n, position in enumerate(positions) if n not in acknowledged]
    assert admin.stats(topic_without_deduplication).subscriptions["s"].backlog == len(left)
    if left:
        successor = client.subscribe(topic_without_deduplication, "s", kind="Exclusive", timeout_s=TIMEOUT_S)
        successor.flow(100)
        eventually(lambda: [one.position for one in successor.pending()] == left)


def test_a_consumer_that_starts_within_a_message_does_not_receive_it(
    official: OfficialClient, client: WireClient, admin: Admin, topic_without_deduplication: str
) -> None:
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    positions = [send(producer, chunk_of(one)) for one in ("a0/3", "a1/3", "a2/3", "x")]
    admin.create_subscription(topic_without_deduplication, "s", earliest=True)
    assert positions[1] is not None
    admin.reset_cursor(topic_without_deduplication, "s", positions[1])
    consumer = official.subscribe(topic_without_deduplication, "s", kind="Exclusive")
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    assert delivery.payload == b"x"
    consumer.ack(delivery)
    consumer.close()
    assert admin.stats(topic_without_deduplication).subscriptions["s"].backlog == 2


def test_an_incomplete_message_of_a_crashed_consumer_goes_to_the_next_one_complete(
    official: OfficialClient, client: WireClient, topic_without_deduplication: str
) -> None:
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    for one in ("a0/3", "a1/3", "x"):
        send(producer, chunk_of(one))
    crashing = official.subscribe(topic_without_deduplication, "s", kind="Exclusive", initial="earliest")
    assert crashing.receive(timeout_s=TIMEOUT_S) is not None
    official.abort()
    send(producer, chunk_of("a2/3"))
    successor = client.subscribe(topic_without_deduplication, "s", kind="Exclusive", timeout_s=TIMEOUT_S)
    successor.flow(100)
    eventually(lambda: [one.metadata.chunk_id for one in successor.pending() if one.metadata.uuid] == [0, 1, 2])


# ------------------------------------------------------------------------------------------- nacks


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_nacked_message_is_redelivered_complete_to_an_ordered_consumer(
    official: OfficialClient, client: WireClient, topic_without_deduplication: str, kind: Kind
) -> None:
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    for one in ("a0/3", "a1/3", "a2/3"):
        send(producer, chunk_of(one))
    consumer = official.subscribe(topic_without_deduplication, "s", kind=kind, initial="earliest", nack_delay_s=0.05)
    first = consumer.receive(timeout_s=TIMEOUT_S)
    assert first is not None
    consumer.nack(first)
    again = consumer.receive(timeout_s=TIMEOUT_S)
    assert again is not None
    assert (again.payload, again.position) == (b"aaa", first.position)


def test_a_nack_on_a_shared_subscription_returns_only_the_last_chunk(
    official: OfficialClient, client: WireClient, admin: Admin, topic_without_deduplication: str
) -> None:
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    for one in ("a0/3", "a1/3", "a2/3"):
        send(producer, chunk_of(one))
    consumer = official.subscribe(
        topic_without_deduplication, "s", kind="Shared", initial="earliest", nack_delay_s=0.05
    )
    first = consumer.receive(timeout_s=TIMEOUT_S)
    assert first is not None
    assert admin.stats(topic_without_deduplication).subscriptions["s"].unacked_messages == 3
    consumer.nack(first)
    # One chunk is no longer pending, and no consumer receives it: it is not the first of its message. What else is sent
    # then depends on the release: small messages on 4.0.8 and 2.11.0, nothing on 3.3.6.
    eventually(lambda: admin.stats(topic_without_deduplication).subscriptions["s"].unacked_messages == 2)
    consumer.close()


def test_incomplete_messages_of_a_shared_consumer_that_left_wait_until_a_reload(
    client: WireClient, admin: Admin, topic_without_deduplication: str
) -> None:
    leaver = client.subscribe(
        topic_without_deduplication, "s", kind="Shared", initial="earliest", consumer_name="A", timeout_s=TIMEOUT_S
    )
    leaver.flow(1)
    producer = client.open_producer(topic_without_deduplication, name="p", timeout_s=TIMEOUT_S)
    for one in ("a0/3", "a1/3", "a2/3"):
        send(producer, chunk_of(one))
    eventually(lambda: [one.metadata.chunk_id for one in leaver.pending()] == [0])
    other = client.subscribe(topic_without_deduplication, "s", kind="Shared", consumer_name="B", timeout_s=TIMEOUT_S)
    other.flow(100)
    leaver.close(timeout_s=TIMEOUT_S)
    send(producer, chunk_of("x"))
    # Nothing more is sent to the other one, small messages included, or no chunks at least.
    other.close(timeout_s=TIMEOUT_S)
    assert [one for one in other.pending() if one.metadata.uuid] == []
    producer.close(timeout_s=TIMEOUT_S)
    admin.unload(topic_without_deduplication)
    third = client.subscribe(topic_without_deduplication, "s", kind="Shared", consumer_name="C", timeout_s=TIMEOUT_S)
    third.flow(100)
    eventually(lambda: [one.payload for one in third.pending()] == [b"a", b"a", b"a", b"x"])


# ---------------------------------------------------------------------------------------- deduplication


@pytest.fixture
def variant(admin: Admin) -> ChunksVariant:
    """How the broker's deduplication treats chunks."""
    return EACH_DEDUPLICATED if int(admin.broker_version().partition(".")[0]) < 3 else ONLY_LAST_DEDUPLICATED


@pytest.mark.parametrize("sent_before", [1, 2, 3])
def test_resent_chunks_are_deduplicated_as_the_model_says_for_this_release(
    client: WireClient, topic: str, variant: ChunksVariant, sent_before: int
) -> None:
    chunks = [chunk_of(one) for one in ("a0/3", "a1/3", "a2/3")]
    sending = [*chunks[:sent_before], *chunks, chunk_of("x")]
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    memory: deduplication.Memory = ()
    for number, chunk in enumerate(sending):
        if number == sent_before:
            producer.close(timeout_s=TIMEOUT_S)
            producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
        judgement = deduplication.judge(deduplication.known_of(memory, "p"), chunk, variant=variant)
        memory = deduplication.remember(memory, "p", chunk) if judgement is ChunkJudgement.STORED else memory
        assert (send(producer, chunk) is not None) == (judgement is ChunkJudgement.STORED)


def test_a_message_interrupted_by_an_unload_is_confirmed_and_stays_incomplete(
    client: WireClient, admin: Admin, topic: str
) -> None:
    chunks = [chunk_of(one) for one in ("a0/3", "a1/3", "a2/3")]
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for chunk in chunks[:2]:
        send(producer, chunk)
    producer.close(timeout_s=TIMEOUT_S)
    admin.unload(topic)
    again = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    assert again.last_sequence_id == ord("a"), "the broker counts it as stored (chunk-recovery-counts-unfinished)"
    assert [send(again, chunk) for chunk in chunks][-1] is None, "its last chunk is confirmed as a duplicate"
    stored = [entry.metadata.chunk_id for entry in read_log(client, topic, timeout_s=TIMEOUT_S)]
    assert 2 not in stored
