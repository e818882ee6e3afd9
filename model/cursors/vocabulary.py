"""Operations and outcomes of document 003: consumers, what they acknowledge, and what a subscription remembers of it.

Messages are referred to by their business ids, which a machine chooses when it sends them, or by when a consumer
received them: ``nth`` counts, from 0 and round and round, what a consumer received since it subscribed. So a history
that is shortened still means something. Where in the log a message stands, the outcomes say.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.log import Position
from model.network import CutAfter, CutAt, LoseThenCut
from model.vocabulary import Client, Operation, Outcome

Kind = Literal["Exclusive", "Failover", "Shared", "Key_Shared"]
"""The kinds of subscriptions."""

Start = Literal["earliest", "latest"]
"""Where a new subscription begins."""

Persistence = Literal["shipped", "once-a-second", "every-ack"]
"""How often the cursors of a topic may be persisted: as the release ships it (0.1 a second in its configuration file),
once a second as document 003 has it, or with every ack (no limit)."""

PERSISTED_PER_S: dict[Persistence, float | None] = {"shipped": 0.1, "once-a-second": 1.0, "every-ack": None}
"""The same in numbers; None: no limit."""


def partition_name(topic: str, number: int) -> str:
    """What a partition of a topic is called, in a history as on a broker."""
    return f"{topic}-partition-{number}"


# -------------------------------------------------------------------------------------------------------- subscriptions


class CreateSubscription(Operation, frozen=True):
    """Create a durable subscription through the admin interface. Done, or Refused (it exists)."""

    topic: str
    subscription: str
    start: Start = "earliest"


class DeleteSubscription(Operation, frozen=True):
    """Delete a subscription through the admin interface. Done, or Refused while consumers are connected to it."""

    topic: str
    subscription: str


class Skip(Operation, frozen=True):
    """Have the next ``count`` entries that are not acknowledged skipped. Done."""

    topic: str
    subscription: str
    count: int


class SkipAll(Operation, frozen=True):
    """Have everything skipped that is in the log now. Done."""

    topic: str
    subscription: str


class Expire(Operation, frozen=True):
    """Have everything up to a message expire that is in the log now. Expired, once the broker is through with it.

    ``up_to``: a business id. The broker is asked by position (``expireMessages`` with a message id), and works in the
    background.
    """

    topic: str
    subscription: str
    up_to: str


class ResetCursor(Operation, frozen=True):
    """Set a subscription back, or forward, to a message, which is then the next to be delivered (None: the beginning).

    Through the admin interface. Consumers are disconnected. ``by_time``: by the message's publish time. SetTo.
    """

    topic: str
    subscription: str
    to: str | None
    by_time: bool = False


class ReadCursor(Operation, frozen=True):
    """Read a subscription's state when nothing is under way: all that was dispatched has arrived at its consumers."""

    topic: str
    subscription: str


class ReadStoredCursor(Operation, frozen=True):
    """Read what the metadata store has of a subscription. StoredRead."""

    topic: str
    subscription: str


class AwaitPersisted(Operation, frozen=True):
    """Wait until a cursor's state has been persisted, as it must be after the flush interval at the latest."""

    topic: str
    subscription: str


class ReceiveAll(Operation, frozen=True):
    """Whoever is connected is cut off, and one new consumer receives all that is left, without acknowledging it.

    It ends when the entries that the broker's cursor says are not acknowledged have all arrived.
    """

    topic: str
    subscription: str
    kind: Kind = "Shared"


# ------------------------------------------------------------------------------------------------------------ consumers


class Subscribe(Operation, frozen=True):
    """A consumer subscribes, under a name of its own; the subscription is created if it is not there.

    ``queue``: how many messages the broker may send ahead of what is asked for (0: none, and for the wire client only).
    ``known_as``: a name for the broker, which another consumer may have or have had (None: one that nobody else has).
    ``proxied``: it comes through a proxy of its own, where the network can fail it; for the wire client only.
    Of Key_Shared subscriptions: ``sticky``, the hash ranges that it claims for itself, ends included (none: the broker
    splits), and whether it allows messages of a key ``out_of_order``; both are for the wire client only.
    """

    consumer: str
    topic: str
    subscription: str
    kind: Kind = "Shared"
    client: Client = "wire"
    start: Start = "earliest"
    durable: bool = True
    queue: int = 0
    known_as: str | None = None
    sticky: tuple[tuple[int, int], ...] = ()
    out_of_order: bool = False
    proxied: bool = False


class CloseConsumer(Operation, frozen=True):
    """A consumer closes in good order: acknowledgments that its client held back are sent first (ACK-11)."""

    consumer: str


class CrashConsumer(Operation, frozen=True):
    """A consumer's connection is cut without a goodbye, with whatever its client held back."""

    consumer: str


class Receive(Operation, frozen=True):
    """A consumer receives up to ``count`` messages, fewer only if the broker has none for it.

    A batch comes whole, so there may be more; what a queue holds beyond ``count`` is received later.
    """

    consumer: str
    count: int


class Acknowledge(Operation, frozen=True):
    """A consumer acknowledges messages that it received; in one command, of the wire client with a receipt.

    ``cumulative`` takes one message, and acknowledges all up to it. A message of a batch is acknowledged alone.
    """

    consumer: str
    nth: tuple[int, ...]
    cumulative: bool = False


class AckById(Operation, frozen=True):
    """A consumer of the wire client acknowledges messages by their ids, whether or not it received them."""

    consumer: str
    ids: tuple[str, ...]
    cumulative: bool = False


class Nack(Operation, frozen=True):
    """A consumer says that it failed with messages that it received (negative acknowledgment), or, with None, with all
    that it has outstanding.

    The wire client asks the broker at once. pulsar-client waits for its delay.
    """

    consumer: str
    nth: tuple[int, ...] | None = None


class CutDuring(Operation, frozen=True):
    """A consumer that is proxied does this, and the network fails it; whatever came of it, it is cut off then, and
    gone.

    The outcome is that of what it does, as far as the consumer learnt it: fewer messages than there were for it, or an
    acknowledgment without a receipt, which may or may not have arrived. Nobody starves.
    """

    doing: Receive | Acknowledge
    fault: CutAt | CutAfter | LoseThenCut


class CutConnection(Operation, frozen=True):
    """The network cuts the connections of a consumer of pulsar-client, which comes back by itself. Done, once it has.

    What its client held back is lost, or was sent before, or is sent when it is back.
    """

    consumer: str


class NackRepeatedly(Operation, frozen=True):
    """A consumer of pulsar-client, on a subscription of its own, fails with a topic's first message ``times`` times,
    acknowledges whatever else comes, and measures when that message comes again. CameBack.
    """

    topic: str
    times: int = 3


class Seek(Operation, frozen=True):
    """As :class:`ResetCursor`, asked for by a consumer; the broker then disconnects all consumers. SetTo."""

    consumer: str
    to: str | None
    by_time: bool = False


# --------------------------------------------------------------------------------------------------------------- topics


class Terminate(Operation, frozen=True):
    """Let nothing more be written to a topic."""

    topic: str


class Trim(Operation, frozen=True):
    """Have the ledgers deleted that the broker may delete, and say which are left."""

    topic: str


# ------------------------------------------------------------------------------------------------------------- outcomes


class Dispatched(Struct, frozen=True):
    """A message as it was delivered: the entry it is in, its place in it (-1: it is alone), how many messages that has
    (0: it is alone), its id, and how often the broker says to have delivered it before (None: the client hides it)."""

    position: Position
    batch_index: int
    batch_size: int
    business_id: str
    redeliveries: int | None = None


class Subscribed(Outcome, frozen=True):
    """A consumer is subscribed."""


class ReceivedMessages(Outcome, frozen=True):
    """What a consumer received. ``settled``: the broker can have sent it nothing more than that."""

    messages: tuple[Dispatched, ...]
    settled: bool = False


class Acknowledged(Outcome, frozen=True):
    """What an acknowledgment was sent for. ``receipt``: the broker confirmed it; otherwise it may be held back yet."""

    messages: tuple[Dispatched, ...]
    receipt: bool


class RedeliveryRequested(Outcome, frozen=True):
    """What the broker was, or will be, asked to deliver again."""

    messages: tuple[Dispatched, ...]


class RedeliveryTimes(Outcome, frozen=True):
    """How long after each failure with it a message came again, the client being told to wait ``first_ms`` the first
    time; and what came again although nobody failed with it."""

    message: Dispatched
    first_ms: float
    after_ms: tuple[float, ...]
    others: tuple[Dispatched, ...] = ()


class Arrived(Struct, frozen=True):
    """What arrived at a consumer and was not received before, and how much the broker counts as outstanding there."""

    consumer: str
    messages: tuple[Dispatched, ...]
    unacknowledged: int


class Range(Struct, frozen=True):
    """Positions acknowledged beyond mark-delete: those behind ``after``, up to and with ``last``."""

    after: Position
    last: Position


class CursorRead(Outcome, frozen=True):
    """A subscription's state, by the broker's account; ``backlog`` counts entries, ``unacknowledged`` messages that
    consumers have, ``written`` what was persisted to the cursor's own ledger, since it has that one."""

    mark_delete: Position
    ranges: tuple[Range, ...]
    backlog: int
    unacknowledged: int
    arrived: tuple[Arrived, ...] = ()
    written: int = 0


class StoredCursorRead(Outcome, frozen=True):
    """What the metadata store has of a subscription: its position info, or (None) only where the cursor's ledger is."""

    mark_delete: Position | None
    ranges: tuple[Range, ...] = ()


class Persisted(Outcome, frozen=True):
    """A cursor's state is persisted: after so long, and so many entries written to its ledger since it was created."""

    after_ms: float
    entries: int


class NotPersisted(Outcome, frozen=True):
    """A cursor's state was not persisted within ``waited_ms``."""

    waited_ms: float


class CursorReset(Outcome, frozen=True):
    """A subscription was set to an entry, which is the next to be delivered; None: to the beginning.

    By time, it is the first entry that was published at that time or later.
    """

    to: Position | None


class Expired(Outcome, frozen=True):
    """The broker is through with it."""


class Trimmed(Outcome, frozen=True):
    """The ledgers of a topic that are left, as the broker lists them."""

    ledgers: tuple[int, ...]


class AllReceived(Outcome, frozen=True):
    """All that was left of a subscription, as it was delivered."""

    messages: tuple[Dispatched, ...]


class Starved(Outcome, frozen=True):
    """Messages that must come did not come in good time, although the broker is up."""

    why: str
    messages: tuple[Dispatched, ...] = ()


CursorOperation = (
    CreateSubscription
    | DeleteSubscription
    | Skip
    | SkipAll
    | Expire
    | ResetCursor
    | ReadCursor
    | ReadStoredCursor
    | AwaitPersisted
    | ReceiveAll
    | Subscribe
    | CloseConsumer
    | CrashConsumer
    | Receive
    | Acknowledge
    | AckById
    | Nack
    | NackRepeatedly
    | Seek
    | CutDuring
    | CutConnection
    | Terminate
    | Trim
)
"""Every operation of document 003."""

CursorOutcome = (
    Subscribed
    | ReceivedMessages
    | Acknowledged
    | RedeliveryRequested
    | RedeliveryTimes
    | CursorRead
    | StoredCursorRead
    | Persisted
    | NotPersisted
    | CursorReset
    | Expired
    | Trimmed
    | AllReceived
    | Starved
)
"""Every outcome that only these have."""
