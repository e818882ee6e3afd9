"""What a proxy saw pass between a client and the broker, and entries as they are stored: evidence beside an outcome.

With it one sees on which side of the wire something went wrong.
"""

from __future__ import annotations

from msgspec import Struct

from model.log import Position
from model.vocabulary import ChunkNumber, Compression


class Delivery(Struct, frozen=True, omit_defaults=True):
    """A message as it was delivered.

    Its entry, its index in it (-1: no batch), the size of the batch (0: no batch, or an application, whose client may
    not report it), its business id, and the broker's redelivery count (None: the client hides it). On a chunked topic
    the size and the digest of its payload stand for the business id.
    """

    position: Position
    batch_index: int = -1
    batch_size: int = 0
    business_id: str = ""
    redeliveries: int | None = None
    size_bytes: int | None = None
    digest: str | None = None


class Part(Struct, frozen=True, omit_defaults=True):
    """An entry's sequence id, the digest of its payload, and its chunk metadata; a message that is not split has no
    uuid.
    """

    sequence_id: int
    digest: str
    uuid: str | None = None
    chunk_id: int = 0
    chunks: int = 1
    total_bytes: int = 0

    @property
    def is_chunk(self) -> bool:
        """Whether it is a part of a message that was split."""
        return self.uuid is not None

    @property
    def chunk(self) -> ChunkNumber | None:
        """Which chunk of a message it is; None if it is no chunk."""
        return None if self.uuid is None else ChunkNumber(self.chunk_id, self.chunks, self.uuid)

    @property
    def is_last(self) -> bool:
        """Whether the message is complete with it."""
        return self.chunk_id == self.chunks - 1

    def __str__(self) -> str:
        if self.uuid is None:
            return f"{self.sequence_id}"
        return f"chunk {self.chunk_id} of {self.chunks} of {self.sequence_id}"


class LoggedPart(Struct, frozen=True, omit_defaults=True):
    """An entry of the log; ``metadata_bytes``: the size of its metadata before the message was split."""

    position: Position
    producer: str
    part: Part
    size_bytes: int
    metadata_bytes: int
    compression: Compression = "none"


class Life(Struct, frozen=True, omit_defaults=True):
    """A producer from ProducerSuccess until it is closed: the sends that passed to the broker, and their receipts.

    ``receipts``: sequence id and position, None for a duplicate; they do not name the chunk. ``refused``: the number of
    SEND_ERRORs. ``last_sequence_id``: that of ProducerSuccess, if it passed since the last operation.
    """

    sends: tuple[Part, ...]
    receipts: tuple[tuple[int, Position | None], ...]
    refused: int = 0
    last_sequence_id: int | None = None

    @property
    def has_unanswered(self) -> bool:
        """Whether it ended with sends that were not answered."""
        return len(self.receipts) + self.refused < len(self.sends)


class CommandMessage(Struct, frozen=True, tag="message", omit_defaults=True):
    """MESSAGE: the broker sent an entry to a consumer."""

    position: Position
    producer: str
    part: Part
    redelivered: int = 0


class CommandAck(Struct, frozen=True, tag="ack", omit_defaults=True):
    """ACK."""

    positions: tuple[Position, ...]
    is_cumulative: bool = False


class CommandRedeliver(Struct, frozen=True, tag="redeliver"):
    """REDELIVER_UNACKNOWLEDGED_MESSAGES; without positions it asks for all of them."""

    positions: tuple[Position, ...]


class CommandSubscribe(Struct, frozen=True, tag="subscribe"):
    """SUBSCRIBE, of a new consumer or of one that reconnects."""


class CommandFlow(Struct, frozen=True, tag="flow"):
    """FLOW: permits for so many entries more."""

    permits: int


ConsumerCommand = CommandMessage | CommandAck | CommandRedeliver | CommandSubscribe | CommandFlow
"""The commands between the broker and a consumer."""


class Traffic(Struct, frozen=True, omit_defaults=True):
    """The commands that passed between the broker and one consumer since the last look, and what its application
    received.
    """

    consumer: str
    commands: tuple[ConsumerCommand, ...]
    received: tuple[Delivery, ...] = ()
