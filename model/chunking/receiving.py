"""How a consumer puts together what it is sent, held against what its application received.

This is the consumer's side of the wire. What passed to it, in that order, decides what it delivers, and in which order
(:mod:`model.chunking.assembly`): by the document or, where that does not explain what the application received, by what
clients are known to do. Each of these ways is a hypothesis; a hypothesis that does not explain what was received ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from model.chunking import assembly
from model.chunking.assembly import Buffers
from model.chunking.state import ClientHypothesis, Consumer, Message
from model.chunking.storing import chunk_of
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.deviations.chunking import CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE, CHUNK_REPEATED_DISCARDS_BUFFER
from model.judgement import Broken
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import CommandAck, CommandMessage, CommandRedeliver, CommandSubscribe, ConsumerCommand, Delivery

WAYS: tuple[tuple[str, ...], ...] = (
    (),
    (CHUNK_REPEATED_DISCARDS_BUFFER,),
    (CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE, CHUNK_REPEATED_DISCARDS_BUFFER),
)
"""How a consumer may work: by the document first, then by what clients do."""

_LEDGER = 1 << 32

Digests = Mapping[tuple[str, int], str]
"""The digest of each message, by producer and sequence id."""


def fresh_lanes(*, pending: int, acks_discarded: bool) -> tuple[ClientHypothesis, ...]:
    """The hypotheses of a consumer that begins."""
    return tuple(ClientHypothesis(deviations=way, buffers=Buffers(pending, acks_discarded)) for way in WAYS)


def variant_of(hypothesis: ClientHypothesis) -> ChunksVariant:
    """What a hypothesis does differently from the document."""
    return (
        ChunksVariant(repeated_discards_buffer=True)
        if CHUNK_REPEATED_DISCARDS_BUFFER in hypothesis.deviations
        else DOCUMENT
    )


def met(hypotheses: Sequence[ClientHypothesis], passed: Sequence[ConsumerCommand]) -> tuple[ClientHypothesis, ...]:
    """The hypotheses after all that passed."""
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
            aside = frozenset(number for number in hypothesis.buffers.aside if _position(number) not in gone)
            return replace(
                hypothesis, buffers=_with_returned(hypothesis.buffers, aside), discarded=hypothesis.discarded - gone
            )
        case CommandRedeliver() | CommandSubscribe():
            return _begun_anew(hypothesis)
        case _:
            raise AssertionError(one)


def _begun_anew(hypothesis: ClientHypothesis) -> ClientHypothesis:
    """Everything comes again: what was not received yet may not come, and buffers begin empty."""
    hypothesis = replace(hypothesis, optional=len(hypothesis.owed), discarded=frozenset())
    if CHUNK_BUFFERS_SURVIVE_RESUBSCRIBE in hypothesis.deviations:
        return replace(hypothesis, buffers=_with_returned(hypothesis.buffers, frozenset()))
    return replace(hypothesis, buffers=Buffers(hypothesis.buffers.limit, hypothesis.buffers.acks_discarded))


def _arrived(hypothesis: ClientHypothesis, came: CommandMessage) -> ClientHypothesis:
    part = came.part
    if not part.is_chunk or part.chunks == 1:
        message = Message(
            positions=(came.position,),
            laid_by=(),
            producer=came.producer,
            sequence_id=part.sequence_id,
            is_split=False,
        )
        rules = {"CHUNK-09"} if hypothesis.buffers.kept else set()
        return replace(hypothesis, owed=(*hypothesis.owed, message), rules=hypothesis.rules | rules)
    buffers, arrival = assembly.arrive(
        hypothesis.buffers, chunk_of(part), _number(came.position), variant=variant_of(hypothesis)
    )
    aside = frozenset(map(_position, buffers.aside))
    after = replace(hypothesis, buffers=buffers, put_off=hypothesis.put_off | aside)
    if arrival.crowded_out:
        entries = {_position(number) for one in arrival.crowded_out for number in one.entries}
        field = "acknowledged" if buffers.acks_discarded else "discarded"
        after = replace(after, rules=after.rules | {"CHUNK-08"}, put_off=after.put_off | entries)
        after = (
            replace(after, acknowledged=after.acknowledged | entries)
            if field == "acknowledged"
            else replace(after, discarded=after.discarded | entries)
        )
    if len(buffers.kept) > 1:
        after = replace(after, rules=after.rules | {"CHUNK-06"})
    if arrival.whole is None:
        return after
    message = Message(
        positions=tuple(map(_position, arrival.whole.positions)),
        laid_by=tuple(map(_position, arrival.whole.laid_by)),
        producer=came.producer,
        sequence_id=part.sequence_id,
        is_split=True,
    )
    rules = {"CHUNK-04", "CHUNK-09"} if after.buffers.kept else {"CHUNK-04"}
    return replace(after, owed=(*after.owed, message), rules=after.rules | rules)


def explained(hypothesis: ClientHypothesis, given: Sequence[Delivery]) -> list[tuple[Delivery, Message]] | None:
    """What came, as this hypothesis put it together; None where it does not deliver exactly that.

    All must come that is owed, the last messages of all, and of the optional ones before them some, in their order.
    """
    optional, due = hypothesis.owed[: hypothesis.optional], hypothesis.owed[hypothesis.optional :]
    before, behind = given[: len(given) - len(due)], given[len(given) - len(due) :]
    if len(given) < len(due) or any(one.position != message.position for one, message in zip(behind, due, strict=True)):
        return None
    found, rest = [], iter(optional)
    for one in before:
        message = next((message for message in rest if message.position == one.position), None)
        if message is None:
            return None
        found.append((one, message))
    return [*found, *zip(behind, due, strict=True)]


def is_explained(hypothesis: ClientHypothesis, given: Sequence[Delivery]) -> bool:
    """Whether a hypothesis delivers exactly what came."""
    return explained(hypothesis, given) is not None


def settled(hypotheses: Sequence[ClientHypothesis], given: Sequence[Delivery]) -> tuple[ClientHypothesis, ...]:
    """The hypotheses that explain what came, with nothing more to deliver."""
    explaining = (hypothesis for hypothesis in hypotheses if is_explained(hypothesis, given))
    return tuple(replace(hypothesis, owed=(), optional=0, rules=frozenset()) for hypothesis in explaining)


def first_explaining(consumer: Consumer, given: Sequence[Delivery]) -> ClientHypothesis:
    """The hypothesis with the fewest deviations that explains what came."""
    return next(hypothesis for hypothesis in consumer.hypotheses if is_explained(hypothesis, given))


@carries("CHUNK-04", "CHUNK-05", "CHUNK-06", "CHUNK-08", "CHUNK-09")
def compared(
    name: str, consumer: Consumer, given: Sequence[Delivery], digests: Digests
) -> tuple[Consumer, list[tuple[Delivery, Message]]] | Broken:
    """The hypotheses that explain what an application received, and the messages; or the rule that is broken."""
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
    return replace(consumer, hypotheses=settled(hypotheses, given), held=(*consumer.held, *pairs)), pairs


def _diagnose(name: str, hypothesis: ClientHypothesis, given: Sequence[Delivery]) -> Broken:
    """The rule that is broken where nothing explains what an application received."""
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
            return _by_client(rule, f"the client of {name} did not deliver {whole}, while {_MEANWHILE[rule]}")
    return _by_client("CHUNK-04", f"the client of {name} did not deliver {whole}")


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


def _with_returned(buffers: Buffers, aside: frozenset[int]) -> Buffers:
    return Buffers(buffers.limit, buffers.acks_discarded, buffers.kept, aside)
