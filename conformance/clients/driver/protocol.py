"""The protocol between the suite and a driver: JSON messages, one a line, over standard input and output.

``docs/driver-protocol.md`` specifies it, and :func:`json_schema` is its schema. The suite sends requests, each with an
id of its own. The driver answers each request once, in any order, and may send events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

import msgspec

from model.vocabulary import Compression, SubscriptionType

PROTOCOL: Final = 1
"""The version of the protocol. It rises if a driver of the version before would be wrong."""

LONGEST_LINE_BYTES: Final = 16 * 1024 * 1024
MOST_EVENTS: Final = 10_000
"""How many events a driver may send between two answers."""

Feature = Literal[
    "abort",
    "ack-oldest-chunked",
    "batch-index-ack",
    "batching",
    "chunking",
    "compression",
    "cumulative-ack",
    "is-connected",
    "key-shared",
    "last-sequence-id",
    "max-pending-chunked",
    "nack",
    "ordering-key",
    "redeliver",
    "redelivery-count",
    "replicated-subscriptions",
    "sequence-id",
    "token",
    "tls",
]
"""What not every client has. A driver that does not declare a feature is not asked for it."""
FEATURES: Final[frozenset[Feature]] = frozenset(get_args(Feature))


def _kebab(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=_kebab):
    """A line to the driver. ``id`` is unique."""

    id: int


class Hello(Request, frozen=True):
    """The first request. The suite speaks this version of the protocol."""

    protocol: int


class Connect(Request, frozen=True):
    """Make a client, with connections of its own, for a broker. ``client`` names it in later requests.

    ``timeout_ms`` bounds its lookups and requests. Whether it connects now or with its first producer is the client's
    own business. TLS and a token are set only for a driver with these features.
    """

    client: str
    url: str
    timeout_ms: int
    token: str | None = None
    trust_certs_file: str | None = None
    allow_insecure: bool = False
    verify_hostname: bool = True


class OpenProducer(Request, frozen=True):
    """Open a producer of a client, answered by ``opened``.

    ``send_timeout_ms``: 0 for never. Without ``batching`` each message is an entry. With it, messages wait for a
    ``flush``, or until the batch has ``batch_messages`` or is ``batch_delay_ms`` old.
    """

    client: str
    producer: str
    topic: str
    timeout_ms: int
    name: str | None = None
    send_timeout_ms: int = 0
    initial_sequence_id: int | None = None
    batching: bool = False
    batch_delay_ms: int = 0
    batch_messages: int = 0
    chunking: bool = False
    compression: Compression = "none"


class Send(Request, frozen=True):
    """Send a message, in the order of the requests, without waiting for the answers to earlier ones.

    Answered by ``sent`` once the broker confirmed it, by ``refused`` or ``gave-up`` once the client reports a failure.
    It has no deadline but the producer's.
    """

    producer: str
    payload: bytes
    sequence_id: int | None = None
    key: str | None = None
    ordering_key: str | None = None
    properties: dict[str, str] = {}


class Flush(Request, frozen=True):
    """Have the producer send the messages that it holds for a batch. Answered at the latest when they are confirmed."""

    producer: str


class LastSequenceId(Request, frozen=True):
    """The producer's own last sequence id, answered by ``sequence-id``."""

    producer: str
    timeout_ms: int


class Subscribe(Request, frozen=True):
    """Subscribe a consumer of a client, answered by ``done``.

    ``queue``: its receiver queue. ``max_pending_chunked``: how many incomplete chunked messages it holds, 0 for any
    number; over the limit it discards the oldest, and acknowledges it with ``ack_oldest_chunked``.
    """

    client: str
    consumer: str
    topic: str
    subscription: str
    kind: SubscriptionType
    timeout_ms: int
    initial: Literal["earliest", "latest"] = "latest"
    name: str | None = None
    queue: int = 1000
    nack_delay_ms: int = 60_000
    batch_index_ack: bool = False
    max_pending_chunked: int = 10
    ack_oldest_chunked: bool = False
    replicated: bool = False


class Receive(Request, frozen=True):
    """The consumer's next message: answered by ``message``, or by ``nothing`` once ``timeout_ms`` passed."""

    consumer: str
    timeout_ms: int


class Acknowledge(Request, frozen=True):
    """Acknowledge a received message, as an application does: without waiting for the broker.

    ``message`` is the number in its ``message``. With ``cumulative``, all up to it.
    """

    consumer: str
    message: int
    timeout_ms: int
    cumulative: bool = False


class Nack(Request, frozen=True):
    """Negatively acknowledge a received message."""

    consumer: str
    message: int
    timeout_ms: int


class IsConnected(Request, frozen=True):
    """Whether the client has a connection for the consumer right now, answered by ``connected``."""

    consumer: str
    timeout_ms: int


class Redeliver(Request, frozen=True):
    """Request the redelivery of all unacknowledged messages."""

    consumer: str
    timeout_ms: int


class Unsubscribe(Request, frozen=True):
    """Delete the consumer's subscription."""

    consumer: str
    timeout_ms: int


class Close(Request, frozen=True):
    """Close a producer, consumer or client gracefully, which sends grouped acks; its name is free then."""

    name: str
    timeout_ms: int


class Abort(Request, frozen=True):
    """Cut a client's connections without closing its producers and consumers, as a crash does.

    Sends without an answer get none. Safe for a client that is closed or aborted. Without the feature ``abort``, each
    client has a process of its own, which the suite kills.
    """

    client: str
    timeout_ms: int


class Cancel(Request, frozen=True):
    """Stop waiting in a ``receive``, which is then answered by ``cancelled``, unless its answer is on its way."""

    request: int
    timeout_ms: int


AnyRequest = (
    Hello
    | Connect
    | OpenProducer
    | Send
    | Flush
    | LastSequenceId
    | Subscribe
    | Receive
    | Acknowledge
    | Nack
    | IsConnected
    | Redeliver
    | Unsubscribe
    | Close
    | Abort
    | Cancel
)


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_kebab):
    """A line from the driver."""


class Answer(Line, frozen=True):
    """The answer to the request with this id."""

    id: int


class HelloAnswer(Answer, frozen=True, tag="hello"):
    """The driver's protocol version, and its client's name (such as ``java``), version and features."""

    protocol: int
    client: str
    version: str
    features: tuple[str, ...]


class Done(Answer, frozen=True):
    """The client did it."""


class Opened(Answer, frozen=True):
    """The producer is open: its name, and the last sequence id that the broker stored for it, -1 for none."""

    name: str
    last_sequence_id: int = -1


class SequenceId(Answer, frozen=True):
    """The producer's last sequence id, -1 for none."""

    last_sequence_id: int


class Connected(Answer, frozen=True):
    """Whether the client has a connection."""

    connected: bool


class Sent(Answer, frozen=True):
    """The broker confirmed the message: its position. -1 for both if the broker dropped it as a duplicate."""

    ledger: int
    entry: int
    batch_index: int = -1


class Message(Answer, frozen=True):
    """A received message. ``message``: the driver's number for it, for acks; used once per consumer.

    ``batch_index``: -1 for a message that is not in a batch. ``topic``: of the partition, if the topic has some.
    """

    message: int
    ledger: int
    entry: int
    payload: bytes
    topic: str
    batch_index: int = -1
    producer: str = ""
    key: str | None = None
    ordering_key: str | None = None
    properties: dict[str, str] = {}
    redelivery_count: int = 0


class Nothing(Answer, frozen=True):
    """No message arrived in time."""


class Cancelled(Answer, frozen=True):
    """The request was cancelled, and had no effect."""


class Refused(Answer, frozen=True):
    """The client says no, for a reason that the broker or the client itself gives: it had no effect.

    ``code``: the error's name in the protocol of Pulsar, such as ``ProducerBusy``; or the client's own name.
    """

    code: str
    message: str


class GaveUp(Answer, frozen=True):
    """The client does not know if it took effect: no answer in time, or the connection was lost."""

    why: Literal["timeout", "disconnected"]
    message: str


class Error(Answer, frozen=True):
    """The driver could not perform the request: a bug, or something that it does not support."""

    message: str


class Event(Line, frozen=True):
    """What happens without a request. ``what``: such as ``active``, ``inactive`` or ``log``."""

    what: str
    name: str | None = None
    message: str = ""


AnyAnswer = (
    HelloAnswer
    | Done
    | Opened
    | SequenceId
    | Connected
    | Sent
    | Message
    | Nothing
    | Cancelled
    | Refused
    | GaveUp
    | Error
)

read_line: Final[Callable[[bytes], AnyAnswer | Event]] = msgspec.json.Decoder(AnyAnswer | Event).decode
read_request: Final[Callable[[bytes], AnyRequest]] = msgspec.json.Decoder(AnyRequest).decode
write: Final[Callable[[msgspec.Struct], bytes]] = msgspec.json.Encoder().encode


def json_schema() -> bytes:
    """The JSON schema of a line in either direction, indented."""
    (request, answer), definitions = msgspec.json.schema_components([AnyRequest, AnyAnswer | Event])
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The driver protocol of pulsar-conformance, version {PROTOCOL}",
        "oneOf": [{"$ref": "#/$defs/ToDriver"}, {"$ref": "#/$defs/FromDriver"}],
        "$defs": {"ToDriver": request, "FromDriver": answer, **definitions},
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"
