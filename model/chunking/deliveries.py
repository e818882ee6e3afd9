"""Compares the messages that a client assembles with those that its application received: the consumer's side.

The commands that it received decide which messages a client delivers, and in which order
(:mod:`model.chunking.assembly`). It works as the document says, or, if that does not explain the deliveries, by a known
deviation. Each of these is a hypothesis. One that does not explain the deliveries is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from model.chunking import assembly
from model.chunking.assembly import BufferEffect, Buffers
from model.chunking.state import AssembledMessage, ClientHypothesis, TrackedConsumer
from model.chunking.stored_chunks import chunk_of
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.excuses.chunking import CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE, CHUNK_REPEATED_DISCARDS_BUFFER
from model.judgement import Broken, overdue
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import CommandAck, CommandMessage, CommandRedeliver, CommandSubscribe, ConsumerCommand, Delivery

WAYS: tuple[tuple[str, ...], ...] = (
    (),
    (CHUNK_REPEATED_DISCARDS_BUFFER,),
    (CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE, CHUNK_REPEATED_DISCARDS_BUFFER),
)
"""The hypotheses on a client: the document first, then known deviations."""

_LEDGER = 1 << 32

Digests = Mapping[tuple[str, int], str]
"""The digest of each message, by producer and sequence id."""


def fresh_hypotheses(*, pending: int, acks_discarded: bool) -> tuple[ClientHypothesis, ...]:
    """The hypotheses of a new consumer."""
    return tuple(ClientHypothesis(deviations=way, buffers=Buffers(pending, acks_discarded)) for way in WAYS)


def variant_of(hypothesis: ClientHypothesis) -> ChunksVariant:
    return (
        ChunksVariant(repeated_discards_buffer=True)
        if CHUNK_REPEATED_DISCARDS_BUFFER in hypothesis.deviations
        else DOCUMENT
    )


def met(hypotheses: Sequence[ClientHypothesis], passed: Sequence[ConsumerCommand]) -> tuple[ClientHypothesis, ...]:
    """The hypotheses after these commands."""
    for one in passed:
        hypotheses = [_met_one(hypothesis, one) for hypothesis in hypotheses]
    return tuple(hypotheses)


def _met_one(hypothesis: ClientHypothesis, one: ConsumerCommand) -> ClientHypothesis:
    match one:
        case CommandMessage():
            return _arrived(hypothesis, one)
        case CommandAck():
            return hypothesis
        case CommandRedeliver(positions) if positions:
            gone = frozenset(positions)
            awaiting_redelivery = frozenset(
                number for number in hypothesis.buffers.awaiting_redelivery if _position(number) not in gone
            )
            return replace(
                hypothesis,
                buffers=_with_returned(hypothesis.buffers, awaiting_redelivery),
                discarded=hypothesis.discarded - gone,
                requests_discarded=hypothesis.requests_discarded or not gone.isdisjoint(hypothesis.discarded),
            )
        case CommandRedeliver() | CommandSubscribe():
            return _restarted(hypothesis)
        case _:
            raise AssertionError(one)


def _restarted(hypothesis: ClientHypothesis) -> ClientHypothesis:
    """Everything is redelivered: messages that were not received yet are optional, and buffers begin empty."""
    hypothesis = replace(hypothesis, optional=len(hypothesis.owed), discarded=frozenset())
    if CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE in hypothesis.deviations:
        return replace(hypothesis, buffers=_with_returned(hypothesis.buffers, frozenset()))
    return replace(hypothesis, buffers=Buffers(hypothesis.buffers.limit, hypothesis.buffers.acks_discarded))


def _arrived(hypothesis: ClientHypothesis, came: CommandMessage) -> ClientHypothesis:
    part = came.part
    if not part.is_chunk or part.chunks == 1:
        message = AssembledMessage(
            positions=(came.position,),
            repeated=(),
            producer=came.producer,
            sequence_id=part.sequence_id,
            is_split=False,
        )
        rules = {"CHUNK-09"} if hypothesis.buffers.kept else set()
        return replace(hypothesis, owed=(*hypothesis.owed, message), rules=hypothesis.rules | rules)
    buffers, arrival = assembly.arrive(
        hypothesis.buffers, chunk_of(part), _number(came.position), variant=variant_of(hypothesis)
    )
    delayed = hypothesis.delayed.union(map(_position, buffers.awaiting_redelivery))
    if arrival.effect in (BufferEffect.DROP, BufferEffect.SET_ASIDE):
        former = hypothesis.buffers.of(part.uuid or "")
        delayed |= {came.position, *map(_position, former.entries if former is not None else ())}
    after = replace(hypothesis, buffers=buffers, delayed=delayed)
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


def explained(
    hypothesis: ClientHypothesis, given: Sequence[Delivery]
) -> list[tuple[Delivery, AssembledMessage]] | None:
    """The deliveries with their messages under this hypothesis; None if it does not explain them exactly.

    All owed messages must be delivered last, after any of the optional ones, in order.
    """
    optional, due = hypothesis.owed[: hypothesis.optional], hypothesis.owed[hypothesis.optional :]
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


def is_explained(hypothesis: ClientHypothesis, given: Sequence[Delivery]) -> bool:
    return explained(hypothesis, given) is not None


def settled(hypotheses: Sequence[ClientHypothesis], given: Sequence[Delivery]) -> tuple[ClientHypothesis, ...]:
    """The hypotheses that explain the deliveries, with nothing left that must be delivered.

    A message that was sent before a redelivery request and again after it may come twice, and the second time late.
    """
    return tuple(
        replace(hypothesis, owed=later, optional=len(later), rules=frozenset())
        for hypothesis in hypotheses
        if (pairs := explained(hypothesis, given)) is not None
        for later in [_maybe_later(hypothesis, pairs)]
    )


def _maybe_later(
    hypothesis: ClientHypothesis, pairs: Sequence[tuple[Delivery, AssembledMessage]]
) -> tuple[AssembledMessage, ...]:
    """The optional messages of which another copy was delivered, but not they themselves."""
    came = [message for _, message in pairs]
    copies = {message.position for message in came}
    optional = hypothesis.owed[: hypothesis.optional]
    return tuple(one for one in optional if one.position in copies and not any(one is other for other in came))


def first_explaining(consumer: TrackedConsumer, given: Sequence[Delivery]) -> ClientHypothesis:
    """The hypothesis with the fewest deviations that explains the deliveries."""
    return next(hypothesis for hypothesis in consumer.hypotheses if is_explained(hypothesis, given))


@carries("CHUNK-04", "CHUNK-05", "CHUNK-06", "CHUNK-08", "CHUNK-09")
def compared(
    name: str, consumer: TrackedConsumer, given: Sequence[Delivery], digests: Digests
) -> tuple[TrackedConsumer, list[tuple[Delivery, AssembledMessage]]] | Broken:
    """The hypotheses that explain the deliveries to an application, with the messages, or the broken rule."""
    hypotheses = [hypothesis for hypothesis in consumer.hypotheses if is_explained(hypothesis, given)]
    if not hypotheses:
        return _diagnose(name, consumer.hypotheses[0], given)
    pairs = explained(hypotheses[0], given) or []
    for one, message in pairs:
        wanted = digests.get((message.producer, message.sequence_id))
        if wanted is not None and one.digest != wanted:
            what = (
                f"the client of {name} delivered message {message.sequence_id} of {message.producer} at {one.position}"
            )
            return _by_client("CHUNK-04", f"{what} with {one.size_bytes} bytes that differ from those sent")
    return replace(
        consumer, hypotheses=settled(hypotheses, given), unacknowledged=(*consumer.unacknowledged, *pairs)
    ), pairs


def _diagnose(name: str, hypothesis: ClientHypothesis, given: Sequence[Delivery]) -> Broken:
    """The rule that is broken if no hypothesis explains the deliveries."""
    owed = {message.position: message for message in hypothesis.owed}
    came = [one.position for one in given]
    for position in came:
        if position not in owed:
            return _by_client(
                "CHUNK-04", f"the client of {name} delivered a message at {position}, where no message is complete"
            )
        if came.count(position) > sum(message.position == position for message in hypothesis.owed):
            return _by_client("CHUNK-04", f"the client of {name} delivered the message at {position} more than once")
    lost = [message for message in hypothesis.owed[hypothesis.optional :] if message.position not in came]
    if not lost:
        listed = ", ".join(map(str, came))
        return _by_client(
            "CHUNK-05", f"the client of {name} delivered the messages not in the order of the log, but as {listed}"
        )
    message = lost[0]
    whole = f"message {message.sequence_id} of {message.producer}, whose last chunk is at {message.position}"
    for rule in ("CHUNK-08", "CHUNK-06", "CHUNK-09"):
        if rule in hypothesis.rules:
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
