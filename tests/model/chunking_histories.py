"""Small histories of chunked messages, written down: what a log has, what passed, what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from model.chunking.payloads import digest_of_crafted
from model.chunking.vocabulary import Came, Crafted, Given, Life, LoggedPart, Part
from model.log import Position

PRODUCER = "p"


def crafted(told: str) -> Crafted:
    """A chunk, as in ``a1/3``: the second of three of message a; or a plain message, as in ``x``."""
    if len(told) == 1:
        return Crafted(ord(told), "", 0, 1)
    chunk_id, chunks = map(int, told[1:].split("/"))
    return Crafted(ord(told[0]), f"u{told[0]}", chunk_id, chunks)


def part(told: str) -> Part:
    """The same, as it passes."""
    one = crafted(told)
    if not one.uuid:
        return Part(one.sequence_id, told)
    return Part(one.sequence_id, told, one.uuid, one.chunk_id, one.chunks, one.chunks)


def at(number: int) -> Position:
    """The position of an entry of the log, by its number."""
    return Position(1, number)


def logged(told: str) -> tuple[LoggedPart, ...]:
    """A log of one producer."""
    return tuple(LoggedPart(at(n), PRODUCER, part(one), 1, 0) for n, one in enumerate(told.split()))


def life(sent: str, receipts: Iterable[int | None]) -> Life:
    """A life: what it sent, and of that, from the first on, at which entry it was confirmed (None: as a duplicate)."""
    sends = tuple(part(one) for one in sent.split())
    answered = zip(sends, receipts, strict=False)
    return Life(sends, tuple((send.sequence_id, None if n is None else at(n)) for send, n in answered))


def came(told: str) -> tuple[Came, ...]:
    """Entries that pass to a consumer, in the order of a log that begins with them."""
    return tuple(Came(at(n), PRODUCER, part(one)) for n, one in enumerate(told.split()))


def given(told: str) -> tuple[Given, ...]:
    """Messages that an application received, as in ``a@2 x@3``."""
    pairs = (one.split("@") for one in told.split())
    return tuple(Given(at(int(n)), 1, digest(name)) for name, n in pairs)


def digest(name: str) -> str:
    """The digest of a message, in these histories."""
    return digest_of_crafted(Crafted(ord(name), f"u{name}" if name < "m" else "", 0, 2 if name < "m" else 1))


def digests(names: str) -> dict[tuple[str, int], str]:
    """Those of several."""
    return {(PRODUCER, ord(name)): digest(name) for name in names}
