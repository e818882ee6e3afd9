"""Small histories of chunked messages as text: the log, the frames that passed, and the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from model.chunking.deliveries import fresh, met
from model.chunking.state import (
    Chunking,
    ChunkingProducer,
    ChunkTopic,
    SentMessage,
    TrackedConsumer,
)
from model.cursors.cursor import Persisting
from model.deviations import DEVIATIONS
from model.events import Done, DueReceived, LogRead, Opened, Sent, Subscribed, UnacknowledgedRead
from model.example import Example
from model.example.judge import NO_TIME
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import OpenProducer, ReadLog, Send
from model.payloads import digest_of
from model.subscription_operations import CloseConsumer, ReadCursor, ReceiveDue, Subscribe
from model.subscriptions import watched
from model.subscriptions.state import Consumption
from model.subscriptions.tracker import topic_created
from model.traffic import CommandAck, CommandMessage, ConsumerCommand, Delivery, Life, LoggedPart, Part, Traffic
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
    return TrackedConsumer(subscription=SUBSCRIPTION_ID, kind="Exclusive", client=client)


# ----------------------------------------------------------------------------------------------- with what explains it


def written(log: str, keys: Mapping[str, str] | None = None) -> ChunkTopic:
    """A topic with this log, each entry of which was sent and confirmed. Each chunk has one byte.

    ``keys``: those of its messages.
    """
    texts = log.split()
    chunks = {one[0]: part(one).chunks for one in texts}
    asked = tuple(
        SentMessage(
            sequence_id=ord(name), digest=digest(name), size_bytes=size, sticky_key=None if keys is None else keys[name]
        )
        for name, size in sorted(chunks.items())
    )
    producer = ChunkingProducer(asked, (life(log, range(len(texts))),))
    return ChunkTopic(1, deduplication=False, producers={PRODUCER: producer}, log=logged(log))


def example(topic: ChunkTopic, *, unknown: str = "") -> Example:
    """A topic without consumers. All deviations are known, except for this one."""
    created = topic_created(
        Consumption(), "t", partitions=0, room=None, persisting=Persisting(0, 0), is_trimmed=False, is_watched=True
    )
    consumption = with_log(created, topic.log)
    return Example(known=frozenset(DEVIATIONS) - {unknown}, consumption=consumption, chunking=Chunking({"t": topic}))


def with_log(state: Consumption, log: tuple[LoggedPart, ...]) -> Consumption:
    judged = watched.judge(state, ReadLog("t"), LogRead((), parts=log), NO_TIME)
    assert isinstance(judged, Allowed), judged
    return judged.state


def joined(
    state: Example, name: str, kind: SubscriptionType = "Exclusive", *, queue: int = 9, pending: int = 0
) -> Example:
    """The same with one more consumer."""
    subscribes = Subscribe(name, "t", "s", kind=kind, client="official", queue=queue, max_pending_chunked=pending)
    return allowed(judge(state, subscribes, Subscribed())).state


def left(state: Example, name: str) -> Example:
    return allowed(judge(state, CloseConsumer(name), Done())).state


def subscribed(log: str, *, kind: SubscriptionType = "Exclusive", pending: int = 0) -> Example:
    """A topic with this log, and its consumer c, which was sent nothing yet."""
    return joined(example(written(log)), "c", kind, pending=pending)


def longer(state: Example, log: str) -> Example:
    """The same with this log."""
    before = len(state.chunking.topics["t"].log)
    new = log.split()[before:]
    lived = life(" ".join(new), range(before, before + len(new)))
    opens = OpenProducer("again", "t", PRODUCER, client="wire")
    opened = allowed(judge(state, opens, Opened(-1))).state
    sent = allowed(judge(opened, Send("again", ()), Sent((), lives=(lived,)))).state
    return allowed(judge(sent, ReadLog("t"), LogRead((), parts=logged(log)))).state


def received(state: Example, commands: Iterable[ConsumerCommand], got: str) -> Allowed[Example] | Broken:
    """The verdict if c was sent everything that is due by these commands, and delivered these messages."""
    return _looked(state, Traffic("c", tuple(commands), given(got)))


def looked(state: Example, **passed: Iterable[ConsumerCommand]) -> Allowed[Example] | Broken:
    """The verdict if consumers were sent everything that is due by these commands, and delivered all they had to."""
    return _looked(state, *(_delivering(state, name, tuple(commands)) for name, commands in passed.items()))


def _delivering(state: Example, name: str, commands: tuple[ConsumerCommand, ...]) -> Traffic:
    owed = met(state.chunking.consumers[name].client, commands).owed
    each = (Delivery(one.position, size_bytes=1, digest=digest(chr(one.sequence_id))) for one in owed)
    return Traffic(name, commands, tuple(each))


def _looked(state: Example, *traffic: Traffic) -> Allowed[Example] | Broken:
    log = state.chunking.topics["t"].log
    return judge(state, ReceiveDue(*SUBSCRIPTION_ID), DueReceived(traffic=traffic, log=log))


def passed(state: Example, name: str, *commands: ConsumerCommand) -> Allowed[Example] | Broken:
    """The verdict if these commands pass, more may follow, and the cursor is as they say."""
    acked = {at for one in commands if isinstance(one, CommandAck) for at in one.positions}
    unacknowledged = tuple(one.position for one in state.chunking.left(SUBSCRIPTION_ID) if one.position not in acked)
    outcome = UnacknowledgedRead(unacknowledged, (Traffic(name, commands),))
    return judge(state, ReadCursor(*SUBSCRIPTION_ID), outcome)


def entries(log: str, *numbers: int) -> list[CommandMessage]:
    """Some entries of a log, which are sent to a consumer."""
    every = dispatched(log)
    return [every[number] for number in numbers]


def allowed(judged: Allowed[Example] | Broken) -> Allowed[Example]:
    assert isinstance(judged, Allowed), judged
    return judged


def broken(judged: Allowed[Example] | Broken) -> tuple[str, str | None, str | None]:
    assert isinstance(judged, Broken), judged
    return judged.rule, judged.deviation, judged.side
