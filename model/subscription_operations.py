"""What is done to subscriptions and by consumers: operations that a history may hold, as in :mod:`model.operations`."""

from __future__ import annotations

from typing import ClassVar, Final

from model.vocabulary import Client, CutAfter, CutAt, LoseThenCut, Operation, RequestScope, Start, SubscriptionType

# ------------------------------------------------------------------------------------------------------- subscriptions


class CreateSubscription(Operation, frozen=True):
    """Create a durable subscription through the admin API, on each partition of a partitioned topic.

    ``at``: the message that it begins with; the outcome is CursorReset. Otherwise Done. Refused: it exists.
    ``is_replicated``: it asks for a replicated subscription.
    """

    request: ClassVar = "create subscription"

    topic: str
    subscription: str
    start: Start = "earliest"
    at: str | None = None
    is_replicated: bool = False


class DeleteSubscription(Operation, frozen=True, omit_defaults=True):
    """Delete a subscription through the admin API, on each partition of a partitioned topic.

    Done, or Refused while consumers are connected to it; ``by_force`` disconnects them. ``scope``: unsubscribe it from
    all topics of the namespace or the bundle, never by force.
    """

    request: ClassVar = "delete subscription"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str
    by_force: bool = False
    scope: RequestScope = "topic"


class Skip(Operation, frozen=True):
    """Skip the next ``count`` unacknowledged entries. Done."""

    request: ClassVar = "skip"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str
    count: int


class SkipAll(Operation, frozen=True, omit_defaults=True):
    """Skip all entries of the log. Done. ``scope``: clear the backlog on all topics of the namespace or the bundle."""

    request: ClassVar = "skip all"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str
    scope: RequestScope = "topic"


class Expire(Operation, frozen=True):
    """Expire all messages up to one, by its business id. Expired, once the broker has finished.

    On a chunked topic ``up_to`` is the number of an entry in the log, round and round; the outcome is CursorMoved.
    The broker is asked by position (``expireMessages`` with a message id), and works in the background.
    """

    request: ClassVar = "expire"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str
    up_to: str | int


class ResetCursor(Operation, frozen=True):
    """Reset a subscription's cursor to a message, which is then the next to be delivered (None: the earliest).

    Through the admin API. Consumers are disconnected. ``by_time``: to the message's publish time, or ``later_ms`` than
    that; the first message that was published then or later is the next. ``after``: the next message is the one after
    it. CursorReset. On a chunked topic ``to`` is the number of an entry in the log, round and round; the outcome is
    CursorMoved.
    """

    request: ClassVar = "reset cursor"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str
    to: str | int | None
    by_time: bool = False
    later_ms: int = 0
    after: bool = False


class ReadCursor(Operation, frozen=True):
    """Read a subscription's state when nothing is in flight: all dispatched messages are at their consumers.

    ``after_delays``: when all delayed messages have come, too. CursorRead.
    """

    request: ClassVar = "read cursor"
    is_look: ClassVar = True

    topic: str
    subscription: str
    after_delays: bool = False


class PeekMessage(Operation, frozen=True):
    """Read the ``nth`` unacknowledged entry of a subscription, counted from 1, through the admin API. MessagePeeked."""

    request: ClassVar = "peek"

    topic: str
    subscription: str
    nth: int


class ReadStoredCursor(Operation, frozen=True):
    """Read a subscription's cursor from the metadata store. StoredCursorRead."""

    request: ClassVar = "read stored cursor"
    is_look: ClassVar = True

    topic: str
    subscription: str


class AwaitPersisted(Operation, frozen=True):
    """Wait until a cursor's state is persisted: at the latest after the flush interval. Persisted, or NotPersisted."""

    is_look: ClassVar = True

    topic: str
    subscription: str


class ReceiveAll(Operation, frozen=True):
    """Disconnect all consumers; one new consumer receives what is unacknowledged, and acks nothing. AllReceived.

    It ends when all entries that the broker's cursor shows as unacknowledged have arrived. At another ``cluster`` than
    the topic's home, it fails over to what that has of a replicated subscription; Skipped if it has none.
    """

    topic: str
    subscription: str
    kind: SubscriptionType = "Shared"
    cluster: str | None = None


class ReceiveDue(Operation, frozen=True):
    """Receive what the broker sends to a subscription's consumers, until nothing more is due. DueReceived."""

    topic: str
    subscription: str


# ----------------------------------------------------------------------------------------------------------- consumers


USUAL_PENDING_CHUNKED: Final = 10
"""How many chunked messages clients assemble at a time. Consumers of chunked topics name another number."""


class Subscribe(Operation, frozen=True):
    """Subscribe a consumer, under a name of its own; the subscription is created if it does not exist. Subscribed.

    ``queue``: the receiver queue size (0: none, and for the wire client only). ``known_as``: its consumer name at the
    broker, which another consumer may have or have had (None: a unique one). ``proxied``: it connects through a proxy
    of its own, where the network can fail; for the wire client only. For Key_Shared: ``sticky``, the hash ranges that
    it claims, ends included (none: auto split), and whether it allows ``out_of_order`` delivery; both for the wire
    client only. Where several clusters have the topic: at one ``cluster``, and whether it asks for a replicated
    subscription. On a chunked topic: how many chunked messages pulsar-client assembles at a time (0: any number);
    beyond that it discards the oldest, or, with ``acks_oldest_chunked``, acknowledges it. ``library``: as that of a
    producer.
    """

    request: ClassVar = "subscribe"

    consumer: str
    topic: str
    subscription: str
    kind: SubscriptionType = "Shared"
    client: Client = "wire"
    start: Start = "earliest"
    durable: bool = True
    queue: int = 0
    known_as: str | None = None
    sticky: tuple[tuple[int, int], ...] = ()
    out_of_order: bool = False
    proxied: bool = False
    cluster: str | None = None
    is_replicated: bool = False
    max_pending_chunked: int = USUAL_PENDING_CHUNKED
    acks_oldest_chunked: bool = False
    library: str | None = None


class CloseConsumer(Operation, frozen=True):
    """Close a consumer; grouped acks that its client holds are sent first (ACK-11)."""

    request: ClassVar = "close"

    consumer: str


class CrashConsumer(Operation, frozen=True):
    """Cut a consumer's connection without closing it; grouped acks that its client holds are lost."""

    may_be_cause: ClassVar = True

    consumer: str


class Permit(Operation, frozen=True):
    """A consumer of the wire client sends a FLOW with so many more permits. Done."""

    request: ClassVar = "permits"

    consumer: str
    count: int


class Receive(Operation, frozen=True):
    """A consumer receives up to ``count`` messages, fewer only if the broker has none for it. ReceivedMessages.

    A batch arrives whole, so there may be more; what a queue holds beyond ``count`` is received later.
    """

    consumer: str
    count: int


class Acknowledge(Operation, frozen=True):
    """A consumer acknowledges messages that it received; in one command, of the wire client with a receipt.

    ``cumulative`` takes one message, and acknowledges all up to it. A message of a batch is acknowledged alone.
    """

    request: ClassVar = "ack"

    consumer: str
    nth: tuple[int, ...]
    cumulative: bool = False


class AckById(Operation, frozen=True):
    """A consumer of the wire client acknowledges messages by their ids, whether or not it received them.

    Where several clusters have the topic: only those that it received and did not acknowledge, at each position, as a
    replicator that reconnected may have stored some twice.
    """

    request: ClassVar = "ack"

    consumer: str
    ids: tuple[str, ...]
    cumulative: bool = False


class Nack(Operation, frozen=True):
    """A consumer negatively acknowledges messages that it received, or, with None, all its unacknowledged ones.

    The wire client requests redelivery at once; pulsar-client after its delay. RedeliveryRequested.
    """

    consumer: str
    nth: tuple[int, ...] | None = None


class NackRepeatedly(Operation, frozen=True):
    """A consumer of pulsar-client, on a subscription of its own, nacks a topic's first message ``times`` times.

    It acknowledges all other messages, and measures when that message is redelivered. RedeliveryTimes.
    """

    topic: str
    times: int = 3
    library: str | None = None


class Seek(Operation, frozen=True):
    """Like :class:`ResetCursor`, requested by a consumer; the broker then disconnects all consumers. CursorReset."""

    request: ClassVar = "seek"
    may_be_cause: ClassVar = True

    consumer: str
    to: str | None
    by_time: bool = False
    later_ms: int = 0


class Unsubscribe(Operation, frozen=True):
    """A consumer removes its subscription, on all partitions. Done, or Refused while others are connected to it."""

    request: ClassVar = "unsubscribe"
    may_be_cause: ClassVar = True

    consumer: str


class CutDuring(Operation, frozen=True):
    """A proxied consumer does this while the network fails; its connection is cut in any case, and it is gone.

    The outcome is that of what it does, as far as the consumer learned it: fewer messages than were due, or an ack
    without a receipt, which the broker may or may not have got. It never starves.
    """

    may_be_cause: ClassVar = True

    doing: Receive | Acknowledge
    fault: CutAt | CutAfter | LoseThenCut

    @property
    def actor(self) -> str:
        """The consumer that is cut off."""
        return self.doing.consumer


class CutConnection(Operation, frozen=True):
    """Cut the connections of a consumer of pulsar-client, which reconnects by itself. Done, once it has.

    Grouped acks that its client holds are lost, were sent before, or are sent after it reconnects.
    """

    may_be_cause: ClassVar = True

    consumer: str


CursorRequest = (
    DeleteSubscription
    | Skip
    | SkipAll
    | Expire
    | ResetCursor
    | ReadCursor
    | PeekMessage
    | ReadStoredCursor
    | AwaitPersisted
    | ReceiveAll
)
"""What the suite requests for a subscription that exists."""

SubscriptionOperation = (
    CreateSubscription
    | CursorRequest
    | Subscribe
    | CloseConsumer
    | CrashConsumer
    | Receive
    | Acknowledge
    | AckById
    | Nack
    | NackRepeatedly
    | Seek
    | Unsubscribe
    | CutDuring
    | CutConnection
)
"""Every operation on subscriptions that any subscription type has."""

KeyOperation = Permit | ReceiveDue
"""The operations that make dispatching exact."""
