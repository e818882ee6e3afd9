"""The effect of each seeded defect of chunking (document 002), in the broker and on the wire; see ``effects``.

Nearly all use one experiment: pulsar-client sends a message of three chunks and a small one, and receives them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from conformance.clients import protocol_pb2 as pb
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt
from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind
from conformance.clients.wire.read_log import read_log
from model.vocabulary import SubscriptionType
from tests.faults.effect_fixtures import Bench
from tests.faults.effects import Effect, Observation, word
from tests.polling import TIMEOUT_S, becomes

PAYLOAD = b"0123456789" * 2500
SMALL = b"small"
SUBSCRIPTION = "s"
MESSAGES = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """The results for the two messages.

    ``stored``: the chunk ids in the log, None for the small message. ``uuids``: how many different ones there are.
    ``is_intact``: whether the stored chunks are the payload. ``delivered``: up to the small message. ``is_through``:
    whether acknowledging everything that was delivered empties the backlog.
    """

    stored: tuple[int | None, ...]
    uuids: int
    is_intact: bool
    delivered: tuple[str, ...]
    is_through: bool


SOUND = Seen((0, 1, 2, None), 1, True, ("whole", "small"), True)


def chunked(bench: Bench, service: Service | None = None, *, kind: SubscriptionType = "Exclusive") -> Observation:
    """Send and receive, at the broker or at another address; the log is read at the broker's own."""
    bench.admin.set_namespace_deduplication(bench.namespace, False)
    with OfficialClient(service or bench.broker.addresses.service, timeout_s=TIMEOUT_S) as client:
        consumer = client.subscribe(bench.topic, SUBSCRIPTION, kind=kind, initial="earliest")
        producer = client.open_producer(bench.topic, name="p", chunking=True)
        for ticket in [producer.send(1, PAYLOAD), producer.send(2, SMALL)]:
            assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt)
        delivered: list[str] = []
        while "small" not in delivered:
            delivery = consumer.receive(timeout_s=TIMEOUT_S)
            assert delivery is not None
            delivered.append({PAYLOAD: "whole", SMALL: "small"}.get(delivery.payload, "another"))
            consumer.ack(delivery)
        is_through = becomes(lambda: bench.admin.stats(bench.topic).subscriptions[SUBSCRIPTION].backlog == 0)
    log = read_log(bench.client, bench.topic, timeout_s=TIMEOUT_S)
    chunks = [entry for entry in log if entry.metadata.HasField("chunk_id")]
    return Seen(
        stored=tuple(entry.metadata.chunk_id if entry in chunks else None for entry in log),
        uuids=len({entry.metadata.uuid for entry in chunks}),
        is_intact=b"".join(payload for entry in chunks for _, payload in entry.messages) == PAYLOAD,
        delivered=tuple(delivered),
        is_through=is_through,
    )


def sent_again(bench: Bench) -> Observation:
    """With deduplication, resend the last chunk of a complete message: the answers to each chunk."""
    producer = bench.producer()

    def chunk(chunk_id: int) -> str:
        metadata = pb.MessageMetadata(uuid="u", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=2)
        return word(bench.answer(producer, producer.send(1, b"x", metadata=metadata)))

    return [chunk(chunk_id) for chunk_id in (0, 1, 1)]


def are_at_one_consumer(bench: Bench, kind: Kind) -> Observation:
    """Two consumers share messages of two chunks, with a permit at a time: whether both chunks go to one of them."""
    bench.admin.set_namespace_deduplication(bench.namespace, False)
    consumers = [
        bench.client.subscribe(bench.topic, SUBSCRIPTION, kind=kind, initial="earliest", timeout_s=TIMEOUT_S)
        for _ in range(2)
    ]
    producer = bench.producer()
    for number in range(MESSAGES):
        for chunk_id in range(2):
            metadata = pb.MessageMetadata(
                uuid=f"u{number}", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=2
            )
            assert word(bench.answer(producer, producer.send(number + 1, b"x", metadata=metadata))) == "stored"
    at: defaultdict[int, set[int]] = defaultdict(set)
    received = 0

    def are_all_received() -> bool:
        nonlocal received
        for index, consumer in enumerate(consumers):
            consumer.flow(1)
            while (delivery := consumer.receive(timeout_s=0.05)) is not None:
                at[delivery.sequence_id].add(index)
                received += 1
        return received >= 2 * MESSAGES or any(len(indexes) > 1 for indexes in at.values())

    assert becomes(are_all_received, within_s=TIMEOUT_S)
    return all(len(indexes) == 1 for indexes in at.values())


def _effect(**defective: Sequence[object] | bool | int) -> Effect:
    return Effect(chunked, SOUND, replace(SOUND, **defective))  # type: ignore[arg-type]


CHUNK_EFFECTS = {
    "acks-of-several-cut-short": _effect(is_through=False),
    "chunk-dropped": _effect(stored=(0, 2, None), is_intact=False, delivered=("small",), is_through=False),
    "chunk-not-assigned": Effect(
        partial(chunked, kind="Shared"), SOUND, replace(SOUND, delivered=("small",), is_through=False)
    ),
    "chunk-stored-twice": _effect(stored=(0, 1, 1, 2, None), is_intact=False, delivered=("small",), is_through=False),
    "chunk-goes-to-next-consumer": Effect(partial(are_at_one_consumer, kind="Shared"), True, False),
    "chunk-has-another-hash": Effect(partial(are_at_one_consumer, kind="Key_Shared"), True, False),
    "chunks-not-deduplicated": Effect(sent_again, ["stored", "stored", "duplicate"], ["stored"] * 3),
}

WIRE_EFFECTS = {
    "wire-ack-in-part": replace(SOUND, is_through=False),
    "wire-chunk-corrupted": replace(SOUND, delivered=("another", "small")),
    "wire-chunk-corrupted-before-storing": replace(SOUND, is_intact=False, delivered=("another", "small")),
    "wire-chunk-id-changed": replace(SOUND, stored=(0, 2, 2, None), delivered=("small",), is_through=False),
    "wire-chunk-lost": replace(SOUND, delivered=("small",), is_through=False),
    "wire-chunk-repeated": replace(
        SOUND, stored=(0, 1, 1, 2, None), is_intact=False, delivered=("small",), is_through=False
    ),
    "wire-chunk-repeated-to-consumer": replace(SOUND, delivered=("small",), is_through=False),
    "wire-chunks-swapped": replace(
        SOUND, stored=(1, 0, 2, None), is_intact=False, delivered=("small",), is_through=False
    ),
    "wire-uuid-changed": replace(SOUND, uuids=2, delivered=("small",), is_through=False),
}
"""The results of :func:`chunked` with each defect of the wire."""
