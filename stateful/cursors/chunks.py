"""The machines of documents 003 and 004 on topics with chunked messages, which the wire client handles by entry.

The wire client sends chunks one by one; pulsar-client splits whole messages. To a subscription each chunk is an entry
like any other. So these machines do to chunks what they do to other entries: to chunks of whole messages, of
incomplete messages, and of messages that have a chunk twice or are sent again. What clients assemble is judged by
document 002.
With deduplication, a repeated chunk is a duplicate (CHUNK-13).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.operations import CloseProducer, CrashProducer, OpenProducer, ReadLog, Send
from model.payloads import chunk_name
from model.vocabulary import ChunkNumber, Client, Entry, Message, Persistence, SubscriptionType
from stateful.cursors.base import KINDS, TOPIC
from stateful.cursors.machines import PERSISTENCE, SIZES, AcknowledgmentMachine
from stateful.key_shared.machines import PERMITS, PICKS, KeysAgainMachine
from stateful.key_shared.plan import KEYS, KeyedPick

COUNTS = st.integers(2, 4)
STORED = st.integers(1, 4)
"""How many chunks of a message are sent, at most."""
REPEATED = st.sampled_from([None, None, None, 0, 1, 3])
"""The chunk that is sent twice."""
CLIENTS: st.SearchStrategy[Client] = st.sampled_from(["wire", "official"])
AGO = st.sampled_from([0, 0, 0, 1, 2])
AGAIN = st.sampled_from([False, False, True])
LEAVES = st.sampled_from(["no", "no", "no", "closes", "crashes"])


@dataclass(slots=True)
class ChunkedMessages:
    """The messages that one producer sends in chunks. The names of all entries are added to ``sent``.

    ``mark`` begins the names, as in :class:`~stateful.cursors.plan.ConsumptionPlan`.
    """

    sent: list[str]
    mark: str = ""
    _messages: list[tuple[int, str | None]] = field(default_factory=list)
    """How many chunks each message has, and its key."""
    _chunks: int = 0

    def message(self, count: int, stored: int, repeated: int | None, *, key: str | None = None) -> Iterator[Entry]:
        """The first ``stored`` of so many chunks of a new message, one by one; the ``repeated`` one is sent twice."""
        self._messages.append((count, key))
        return self._some(len(self._messages), stored, repeated)

    def again(self, ago: int, stored: int) -> Iterator[Entry]:
        """The first ``stored`` chunks of the message that was sent so many messages ago; 0: of the last one, if any."""
        if not self._messages:
            return iter(())
        return self._some(len(self._messages) - min(ago, len(self._messages) - 1), stored, None)

    def _some(self, sequence_id: int, stored: int, repeated: int | None) -> Iterator[Entry]:
        count, key = self._messages[sequence_id - 1]
        for number in range(min(count, stored)):
            for _ in range(1 + (number == repeated)):
                self._chunks += 1
                self.sent.append(f"{self.mark}h{self._chunks}")
                chunk = ChunkNumber(number, count, f"{self.mark}u{sequence_id}")
                yield Entry((Message(sequence_id, self.sent[-1], key, chunk=chunk),))


@dataclass(slots=True)
class SplitMessages:
    """The messages that pulsar-client splits: all chunks of a message are sent together."""

    session: str
    producer: str
    sent: list[str]
    mark: str = ""
    is_open: bool = False
    _sequence_id: int = 0
    _payloads: int = 0

    def opened(self) -> Iterator[OpenProducer]:
        """Open its producer if it is closed; after an unload, pulsar-client reopens it by itself."""
        if not self.is_open:
            self.is_open = True
            yield OpenProducer(self.session, TOPIC, self.producer, client="official", is_chunking=True)

    def message(self, count: int, *, key: str | None = None, again: bool = False) -> Send:
        """A new message in so many chunks; or another payload with the id of the last one."""
        self._sequence_id += not again
        self._payloads += 1
        uuid = f"{self.producer}-{self._sequence_id}"
        entries = []
        for number in range(count):
            self.sent.append(chunk_name(f"{self.mark}w{self._payloads}", number))
            chunk = ChunkNumber(number, count, uuid)
            entries.append(Entry((Message(self._sequence_id, self.sent[-1], key, chunk=chunk),)))
        return Send(self.session, tuple(entries))

    def left(self, leaves: str) -> Iterator[CloseProducer | CrashProducer]:
        """Close its producer, or not."""
        if leaves != "no":
            self.is_open = False
            yield CloseProducer(self.session) if leaves == "closes" else CrashProducer(self.session)


def sends(session: str, entries: Iterator[Entry]) -> Iterator[Send]:
    """Chunks are sent one by one, because answers name sequence ids, and those of a message share one."""
    return (Send(session=session, entries=(entry,)) for entry in entries)


class AcknowledgmentChunksMachine(AcknowledgmentMachine):
    """Another producer sends messages in chunks to the topic."""

    session: Final = "chunks of a"

    @initialize(
        ends=st.sampled_from([False] * 9 + [True]),
        persistence=PERSISTENCE,
        kinds=st.lists(KINDS, min_size=1, max_size=3).map(tuple),
        is_trimmed=st.sampled_from([False, False, False, True]),
        is_deduplicated=st.booleans(),
        sizes=SIZES,
        chunks=COUNTS,
        client=CLIENTS,
    )
    def begin(
        self,
        ends: bool,
        persistence: Persistence,
        kinds: tuple[SubscriptionType, ...],
        is_trimmed: bool,
        is_deduplicated: bool,
        sizes: list[int],
        chunks: int,
        client: Client,
    ) -> None:
        """As in the base class, with a chunked message in the topic."""
        self.messages = ChunkedMessages(self.plan.sent, self.plan.mark)
        self.split = SplitMessages("split of a", f"{self.plan.mark}w", self.plan.sent, self.plan.mark)
        super().begin(
            ends=ends,
            contends=False,
            is_patient=False,
            persistence=persistence,
            kinds=kinds,
            is_trimmed=is_trimmed,
            is_deduplicated=is_deduplicated,
            sizes=sizes,
        )
        if client == "wire":
            self.send_chunks(chunks=chunks, stored=chunks, repeated=None, sizes=sizes)
        else:
            self.send_large(chunks=chunks, again=False, leaves="no")

    def produce_again(self, topic: str = TOPIC) -> None:
        """Open or reopen both producers."""
        super().produce_again(topic)
        self.do(OpenProducer(session=self.session, topic=topic, producer=f"{self.plan.mark}q"))

    @precondition(lambda self: not self.is_over)
    @rule(chunks=COUNTS, stored=STORED, repeated=REPEATED, sizes=SIZES)
    def send_chunks(self, chunks: int, stored: int, repeated: int | None, sizes: list[int]) -> None:
        """Send a message in chunks, with the other producer's entries between; some may be missing or repeated."""
        for number, send in enumerate(sends(self.session, self.messages.message(chunks, stored, repeated))):
            self.do(send)
            if not number:
                self.send_entries(sizes)

    @precondition(lambda self: not self.is_over)
    @rule(ago=AGO, stored=STORED, reconnects=st.booleans())
    def send_chunks_again(self, ago: int, stored: int, reconnects: bool) -> None:
        """Send a message again, complete or not, perhaps after its producer lost its connection."""
        if reconnects:
            self.do(CrashProducer(session=self.session))
            self.do(OpenProducer(session=self.session, topic=TOPIC, producer=f"{self.plan.mark}q"))
        for send in sends(self.session, self.messages.again(ago, stored)):
            self.do(send)

    @precondition(lambda self: not self.is_over)
    @rule(chunks=COUNTS, again=AGAIN, leaves=LEAVES)
    def send_large(self, chunks: int, again: bool, leaves: str) -> None:
        """pulsar-client sends a large message, perhaps twice.

        Its receipts do not say which of the chunks are duplicates, so the log is read back then.
        """
        for opening in self.split.opened():
            self.do(opening)
        self.do(self.split.message(chunks))
        if again and not self.is_trimmed:
            self.do(self.split.message(chunks, again=True))
            self.do(ReadLog(TOPIC))
        for leaving in self.split.left(leaves):
            self.do(leaving)

    @precondition(lambda self: not self.is_over)
    @rule(chunks=COUNTS, stored=STORED, again=STORED)
    def unload_between_chunks(self, chunks: int, stored: int, again: int) -> None:
        """Unload the topic after some chunks of a message; its producer sends it again from the first chunk."""
        for send in sends(self.session, self.messages.message(chunks, stored, None)):
            self.do(send)
        self.move()
        for send in sends(self.session, self.messages.again(0, again)):
            self.do(send)


class KeysChunksMachine(KeysAgainMachine):
    """Another producer sends messages with keys in chunks to the topic."""

    session: Final = "chunks"

    @initialize(
        picks=PICKS,
        permits=PERMITS,
        out_of_order=st.sampled_from([False] * 5 + [True]),
        chunks=COUNTS,
        client=CLIENTS,
    )
    def begin(self, picks: list[KeyedPick], permits: int, out_of_order: bool, chunks: int, client: Client) -> None:
        """As in the base class, with a chunked message in the topic."""
        self.messages = ChunkedMessages(self.plan.sent)
        self.split = SplitMessages("split", "w", self.plan.sent)
        super().begin(picks, permits, out_of_order)
        if client == "wire":
            self.send_chunks(key=0, chunks=chunks, stored=chunks, repeated=None, picks=picks)
        else:
            self.send_large(key=0, chunks=chunks, again=False, leaves="no")

    def produce_again(self) -> None:
        """Open or reopen both producers."""
        super().produce_again()
        self.do(OpenProducer(session=self.session, topic=TOPIC, producer="q"))

    @rule(key=st.none() | st.integers(0, len(KEYS) - 1), chunks=COUNTS, stored=STORED, repeated=REPEATED, picks=PICKS)
    def send_chunks(
        self, key: int | None, chunks: int, stored: int, repeated: int | None, picks: list[KeyedPick]
    ) -> None:
        """Send a message in chunks, with the other producer's entries between; some may be missing or repeated."""
        entries = self.messages.message(chunks, stored, repeated, key=None if key is None else KEYS[key])
        for number, send in enumerate(sends(self.session, entries)):
            self.do(send)
            if not number:
                self.send_entries(picks)
        self.gather()

    @rule(ago=AGO, stored=STORED, reconnects=st.booleans())
    def send_chunks_again(self, ago: int, stored: int, reconnects: bool) -> None:
        """Send a message again, complete or not, perhaps after its producer lost its connection."""
        if reconnects:
            self.do(CrashProducer(session=self.session))
            self.do(OpenProducer(session=self.session, topic=TOPIC, producer="q"))
        for send in sends(self.session, self.messages.again(ago, stored)):
            self.do(send)
        self.gather()

    @rule(key=st.none() | st.integers(0, len(KEYS) - 1), chunks=COUNTS, again=AGAIN, leaves=LEAVES)
    def send_large(self, key: int | None, chunks: int, again: bool, leaves: str) -> None:
        """pulsar-client sends a large message, perhaps twice.

        Its receipts do not say which of the chunks are duplicates, so the log is read back then.
        """
        of_key = None if key is None else KEYS[key]
        for opening in self.split.opened():
            self.do(opening)
        self.do(self.split.message(chunks, key=of_key))
        if again:
            self.do(self.split.message(chunks, key=of_key, again=True))
            self.do(ReadLog(TOPIC))
        for leaving in self.split.left(leaves):
            self.do(leaving)
        self.gather()

    @rule(key=st.none() | st.integers(0, len(KEYS) - 1), chunks=COUNTS, stored=STORED, again=STORED, permits=PERMITS)
    def unload_between_chunks(self, key: int | None, chunks: int, stored: int, again: int, permits: int) -> None:
        """Unload the topic after some chunks of a message; its producer sends it again from the first chunk."""
        entries = self.messages.message(chunks, stored, None, key=None if key is None else KEYS[key])
        for send in sends(self.session, entries):
            self.do(send)
        self.move()
        self.join(permits)
        for send in sends(self.session, self.messages.again(0, again)):
            self.do(send)
        self.gather()
