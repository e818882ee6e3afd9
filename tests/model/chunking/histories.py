"""Small histories of chunked messages as text: the log, the frames that passed, and the results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from model.chunking.deliveries import fresh
from model.chunking.state import (
    Chunking,
    ChunkingProducer,
    ChunkTopic,
    SentMessage,
    TrackedConsumer,
)
from model.deviations import DEVIATIONS
from model.events import DueReceived, Subscribed
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.payloads import digest_of
from model.subscription_operations import ReceiveDue, Subscribe
from model.traffic import CommandMessage, ConsumerCommand, Delivery, Life, LoggedPart, Part, Traffic
from model.vocabulary import ChunkNumber, Message, SubscriptionId, SubscriptionType

PRODUCER = "p"
SUBSCRIPTION_ID = SubscriptionId("t", "s")


def part(text: str) -> Part:
    """An entry as it passes: ``a1/3``, the second of three chunks of message a; or a plain message, as in ``x``."""
    if len(text) == 1:
        return Part(ord(text), digest(text))
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
    client = fresh(pending=pending, acks_discarded=acks_discarded)
    return TrackedConsumer(topic="t", subscription="s", kind="Exclusive", client=client)


# ----------------------------------------------------------------------------------------------- with what explains it


def subscribed(log: str, *, kind: SubscriptionType = "Exclusive", pending: int = 0) -> Example:
    """A topic with this log, and its consumer c, which was sent nothing yet. Each chunk has one byte."""
    state = Example(known=frozenset(DEVIATIONS), chunking=Chunking({"t": written(log)}))
    subscribes = Subscribe("c", "t", "s", kind=kind, client="official", queue=9, max_pending_chunked=pending)
    return allowed(judge(state, subscribes, Subscribed())).state


def written(log: str) -> ChunkTopic:
    """A topic with this log, each entry of which was sent and confirmed."""
    texts = log.split()
    chunks = {one[0]: part(one).chunks for one in texts}
    asked = tuple(
        SentMessage(sequence_id=ord(name), digest=digest(name), size_bytes=size)
        for name, size in sorted(chunks.items())
    )
    producer = ChunkingProducer(asked, (life(log, range(len(texts))),))
    return ChunkTopic(1, deduplication=False, producers={PRODUCER: producer}, log=logged(log))


def longer(state: Example, log: str) -> Example:
    """The same with this log."""
    return replace(state, chunking=state.chunking.with_topic("t", written(log)))


def received(state: Example, commands: Iterable[ConsumerCommand], got: str) -> Allowed[Example] | Broken:
    """The verdict if c was sent everything that is due by these commands, and delivered these messages."""
    traffic = Traffic("c", tuple(commands), given(got))
    return judge(
        state, ReceiveDue(*SUBSCRIPTION_ID), DueReceived(traffic=(traffic,), log=state.chunking.topics["t"].log)
    )


def allowed(judged: Allowed[Example] | Broken) -> Allowed[Example]:
    assert isinstance(judged, Allowed), judged
    return judged


def broken(judged: Allowed[Example] | Broken) -> tuple[str, str | None, str | None]:
    assert isinstance(judged, Broken), judged
    return judged.rule, judged.deviation, judged.side
