"""Small histories of chunked messages as text: the log, the frames that passed, and the results."""

from __future__ import annotations

from collections.abc import Iterable

from model.chunking.deliveries import fresh_hypotheses
from model.chunking.state import TrackedConsumer
from model.log import Position
from model.payloads import digest_of
from model.traffic import CommandMessage, Delivery, Life, LoggedPart, Part
from model.vocabulary import ChunkNumber, Message

PRODUCER = "p"


def part(text: str) -> Part:
    """An entry as it passes: ``a1/3``, the second of three chunks of message a; or a plain message, as in ``x``."""
    if len(text) == 1:
        return Part(ord(text), text)
    chunk_id, chunks = map(int, text[1:].split("/"))
    return Part(ord(text[0]), text, f"u{text[0]}", chunk_id, chunks, chunks)


def at(number: int) -> Position:
    """The position of an entry of the log, by its number."""
    return Position(1, number)


def logged(text: str) -> tuple[LoggedPart, ...]:
    """A log of one producer."""
    return tuple(LoggedPart(at(n), PRODUCER, part(one), 1, 0) for n, one in enumerate(text.split()))


def life(sent: str, receipts: Iterable[int | None]) -> Life:
    """A life: what it sent, and of that, from the first on, at which entry it was confirmed (None: as a duplicate)."""
    sends = tuple(part(one) for one in sent.split())
    answered = zip(sends, receipts, strict=False)
    return Life(sends, tuple((send.sequence_id, None if n is None else at(n)) for send, n in answered))


def dispatched(text: str) -> tuple[CommandMessage, ...]:
    """Entries that are sent to a consumer, in the order of a log that begins with them."""
    return tuple(CommandMessage(at(n), PRODUCER, part(one)) for n, one in enumerate(text.split()))


def given(text: str) -> tuple[Delivery, ...]:
    """Messages that an application received, as in ``a@2 x@3``."""
    pairs = (one.split("@") for one in text.split())
    return tuple(Delivery(at(int(n)), size_bytes=1, digest=digest(name)) for name, n in pairs)


def digest(name: str) -> str:
    """The digest of a message, in these histories."""
    is_split = name < "m"
    return digest_of(Message(ord(name), f"u{name}", chunk=ChunkNumber(0, 2) if is_split else None))


def digests(names: str) -> dict[tuple[str, int], str]:
    """Those of several."""
    return {(PRODUCER, ord(name)): digest(name) for name in names}


def consumer(*, pending: int = 0, acks_discarded: bool = False) -> TrackedConsumer:
    """An Exclusive consumer of pulsar-client that has received nothing."""
    hypotheses = fresh_hypotheses(pending=pending, acks_discarded=acks_discarded)
    return TrackedConsumer(topic="t", subscription="s", kind="Exclusive", hypotheses=hypotheses)
