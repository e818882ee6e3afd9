"""Compares the messages that a client assembles with those that its application received: the consumer's side.

The commands that it received decide which messages a client delivers, and in which order
(:mod:`model.chunking.assembly`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from model.chunking import assembly
from model.chunking.assembly import BufferEffect, Buffers
from model.chunking.evidence import ByClient, PayloadDiffers
from model.chunking.state import AssembledMessage, ChunkClient, TrackedConsumer
from model.chunking.stored_chunks import chunk_of
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.judgement import HOLDS, Allowed, Broken, in_turn, overdue
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    Delivery,
)

REPEATED_DISCARDS: Final = ChunksVariant(repeated_discards_buffer=True)
BUFFERS_SURVIVE: Final = ChunksVariant(repeated_discards_buffer=True, buffers_survive_resubscribe=True)
CLIENTS: Final = (DOCUMENT, REPEATED_DISCARDS, BUFFERS_SURVIVE)
"""How clients assemble messages: as the document says, and as releases do."""

_LEDGER = 1 << 32

Digests = Mapping[tuple[str, int], str]
"""The digest of each message, by producer and sequence id."""


def fresh(*, pending: int, acks_discarded: bool, variant: ChunksVariant = DOCUMENT) -> ChunkClient:
    """The client of a new consumer."""
    return ChunkClient(variant=variant, buffers=Buffers(pending, acks_discarded))


def met(client: ChunkClient, passed: Iterable[ConsumerCommand]) -> ChunkClient:
    """The client after these commands."""
    for one in passed:
        client = _met_one(client, one)
    return client


def _met_one(client: ChunkClient, one: ConsumerCommand) -> ChunkClient:
    match one:
        case CommandMessage():
            return _arrived(client, one)
        case CommandAck() | CommandFlow():
            return client
        case CommandRedeliver(positions) if positions:
            gone = frozenset(positions)
            awaiting_redelivery = frozenset(
                number for number in client.buffers.awaiting_redelivery if _position(number) not in gone
            )
            return replace(
                client,
                buffers=_with_returned(client.buffers, awaiting_redelivery),
                discarded=client.discarded - gone,
                requests_discarded=client.requests_discarded or not gone.isdisjoint(client.discarded),
            )
        case CommandRedeliver() | CommandSubscribe():
            return _restarted(client)
        case _:
            raise AssertionError(one)


def _restarted(client: ChunkClient) -> ChunkClient:
    """Everything is redelivered: messages that were not received yet are optional, and buffers begin empty."""
    client = replace(client, optional=len(client.owed), discarded=frozenset())
    if client.variant.buffers_survive_resubscribe:
        return replace(client, buffers=_with_returned(client.buffers, frozenset()))
    return replace(client, buffers=Buffers(client.buffers.limit, client.buffers.acks_discarded))


def _arrived(client: ChunkClient, came: CommandMessage) -> ChunkClient:
    part = came.part
    if not part.is_chunk or part.chunks == 1:
        message = AssembledMessage(
            positions=(came.position,),
            repeated=(),
            producer=came.producer,
            sequence_id=part.sequence_id,
            is_split=False,
        )
        rules = {"CHUNK-09"} if client.buffers.kept else set()
        return replace(client, owed=(*client.owed, message), rules=client.rules | rules)
    buffers, arrival = assembly.arrive(client.buffers, chunk_of(part), _number(came.position), variant=client.variant)
    delayed = client.delayed.union(map(_position, buffers.awaiting_redelivery))
    if arrival.effect in (BufferEffect.RESTART, BufferEffect.LAY_BY):
        repeated = [number for one in buffers.kept if one.uuid == part.uuid for number in one.repeated]
        client = replace(client, superseded=client.superseded.union(map(_position, repeated)))
    if arrival.effect in (BufferEffect.DROP, BufferEffect.SET_ASIDE):
        former = client.buffers.of(part.uuid or "")
        delayed |= {came.position, *map(_position, former.entries if former is not None else ())}
    after = replace(client, buffers=buffers, delayed=delayed)
    if arrival.crowded_out:
        entries = {_position(number) for one in arrival.crowded_out for number in one.entries}
        field = "acknowledged" if buffers.acks_discarded else "discarded"
        after = replace(after, rules=after.rules | {"CHUNK-08"}, delayed=after.delayed | entries)
        after = (
            replace(after, acknowledged=after.acknowledged | entries)
            if field == "acknowledged"
            else replace(after, discarded=after.discarded | entries)
        )
    if len(buffers.kept) > 1:
        after = replace(after, rules=after.rules | {"CHUNK-06"})
    if arrival.whole is None:
        return after
    message = AssembledMessage(
        positions=tuple(map(_position, arrival.whole.positions)),
        repeated=tuple(map(_position, arrival.whole.repeated)),
        producer=came.producer,
        sequence_id=part.sequence_id,
        is_split=True,
    )
    rules = {"CHUNK-04", "CHUNK-09"} if after.buffers.kept else {"CHUNK-04"}
    return replace(after, owed=(*after.owed, message), rules=after.rules | rules)


def explained(client: ChunkClient, given: Sequence[Delivery]) -> list[tuple[Delivery, AssembledMessage]] | None:
    """The deliveries with their messages; None if the client does not explain them exactly.

    All owed messages must be delivered last, after any of the optional ones, in order.
    """
    optional, due = client.owed[: client.optional], client.owed[client.optional :]
    before, last = given[: len(given) - len(due)], given[len(given) - len(due) :]
    if len(given) < len(due) or any(one.position != message.position for one, message in zip(last, due, strict=True)):
        return None
    found, rest = [], iter(optional)
    for one in before:
        message = next((message for message in rest if message.position == one.position), None)
        if message is None:
            return None
        found.append((one, message))
    return [*found, *zip(last, due, strict=True)]


def is_explained(client: ChunkClient, given: Sequence[Delivery]) -> bool:
    return explained(client, given) is not None


def settled(client: ChunkClient, given: Sequence[Delivery]) -> ChunkClient:
    """The client after these deliveries, which it explains: nothing is left that must be delivered.

    A message that was sent before a redelivery request and again after it may come twice, and the second time late.
    """
    later = _maybe_later(client, explained(client, given) or [])
    return replace(client, owed=later, optional=len(later), rules=frozenset())


def _maybe_later(
    client: ChunkClient, pairs: Sequence[tuple[Delivery, AssembledMessage]]
) -> tuple[AssembledMessage, ...]:
    """The optional messages of which another copy was delivered, but not they themselves."""
    came = [message for _, message in pairs]
    copies = {message.position for message in came}
    optional = client.owed[: client.optional]
    return tuple(one for one in optional if one.position in copies and not any(one is other for other in came))


@carries("CHUNK-04", "CHUNK-05", "CHUNK-06", "CHUNK-08", "CHUNK-09")
def compared(
    name: str, consumer: TrackedConsumer, given: Sequence[Delivery]
) -> tuple[TrackedConsumer, list[tuple[Delivery, AssembledMessage]]] | Broken:
    """The consumer after these deliveries to its application, with the messages, or the broken rule."""
    client = consumer.client
    pairs = explained(client, given)
    if pairs is None:
        return replace(_diagnose(name, client, given), evidence=ByClient(name))
    unacknowledged = (*consumer.unacknowledged, *pairs)
    return replace(consumer, client=settled(client, given), unacknowledged=unacknowledged), pairs


def have_payloads(
    name: str, pairs: Iterable[tuple[Delivery, AssembledMessage]], digests: Digests
) -> Allowed[None] | Broken:
    """What a client delivered is what was sent."""
    return in_turn(None, [partial(_has_payload, name=name, pair=pair, digests=digests) for pair in pairs])


@carries("CHUNK-04")
def _has_payload(
    _: None, name: str, pair: tuple[Delivery, AssembledMessage], digests: Digests
) -> Allowed[None] | Broken:
    one, message = pair
    wanted = digests.get((message.producer, message.sequence_id))
    if wanted is None or one.digest == wanted:
        return HOLDS
    what = f"the client of {name} delivered message {message.sequence_id} of {message.producer} at {one.position}"
    broken = _by_client("CHUNK-04", f"{what} with {one.size_bytes} bytes that differ from those sent")
    return replace(broken, evidence=PayloadDiffers(name, one, message)).passing_to(None)


def _diagnose(name: str, client: ChunkClient, given: Sequence[Delivery]) -> Broken:
    """The rule that is broken if the client does not explain the deliveries."""
    owed = {message.position: message for message in client.owed}
    came = [one.position for one in given]
    for position in came:
        if position not in owed:
            return _by_client(
                "CHUNK-04", f"the client of {name} delivered a message at {position}, where no message is complete"
            )
        if came.count(position) > sum(message.position == position for message in client.owed):
            return _by_client("CHUNK-04", f"the client of {name} delivered the message at {position} more than once")
    lost = [message for message in client.owed[client.optional :] if message.position not in came]
    if not lost:
        listed = ", ".join(map(str, came))
        return _by_client(
            "CHUNK-05", f"the client of {name} delivered the messages not in the order of the log, but as {listed}"
        )
    message = lost[0]
    whole = f"message {message.sequence_id} of {message.producer}, whose last chunk is at {message.position}"
    for rule in ("CHUNK-08", "CHUNK-06", "CHUNK-09"):
        if rule in client.rules:
            return overdue(_by_client(rule, f"the client of {name} did not deliver {whole}, while {_MEANWHILE[rule]}"))
    return overdue(_by_client("CHUNK-04", f"the client of {name} did not deliver {whole}"))


_MEANWHILE = {
    "CHUNK-06": "it had buffers of other messages",
    "CHUNK-08": "it discarded others",
    "CHUNK-09": "another one was unfinished",
}


def _by_client(rule: str, because: str) -> Broken:
    return Broken(rule, because, None, "client")


def _number(position: Position) -> int:
    return position.ledger * _LEDGER + position.entry


def _position(number: int) -> Position:
    return Position(*divmod(number, _LEDGER))


def _with_returned(buffers: Buffers, awaiting_redelivery: frozenset[int]) -> Buffers:
    return Buffers(buffers.limit, buffers.acks_discarded, buffers.kept, awaiting_redelivery)
