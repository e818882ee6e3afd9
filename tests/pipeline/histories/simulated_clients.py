"""A correct broker with distant clients, as an application's recorder sees them.

Everything is delayed in both directions: a message waits in a client's queue until the application receives it, and an
ack or a redelivery request waits until the broker reads it. A connection may be lost, which only a proxy sees; the
client may still deliver its queue, and send its acks on the next connection. The drawn choices decide what happens
when. The broker is correct: a message is pending at one consumer at a time, and the messages of a key, on Key_Shared,
are delivered in order to one consumer at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st

from conformance.history.recorded import CallOutcome, Kind, Recorded
from tests.history.samples import event

KEYS = 2
CONSUMERS = 2
MESSAGES_AT_MOST = 6

Step = Callable[[], None]

choices = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=10, max_size=40)
"""For each step: whether it is a disturbance (0), and which of the possible ones."""


@dataclass
class _Client:
    """A consumer's client. ``orders``: commands in flight to the broker; ``queue``: messages in flight from it."""

    name: str
    orders: deque[tuple[Kind, int]] = field(default_factory=deque)
    queue: deque[tuple[int, int]] = field(default_factory=deque)
    unacknowledged: list[int] = field(default_factory=list)


class Simulated:
    """One subscription, and its recorded events."""

    def __init__(self, subscription_type: str, *, is_proxied: bool) -> None:
        self.recorded: list[Recorded] = []
        self._is_proxied = is_proxied
        self._is_keyed = subscription_type == "Key_Shared"
        self._who = {"subscription": "s", "subscription_type": subscription_type}
        self._now_ns = 0
        self._keys: list[int] = []
        self._acknowledged: set[int] = set()
        self._outstanding: dict[int, str] = {}
        self._clients: list[_Client] = []
        for number in range(CONSUMERS):
            self._join(number)

    def do(self, kind: int, number: int) -> None:
        """Take one of the possible steps, if there is one."""
        steps = list(self._disturbances(number) if kind == 0 else self._usual_steps())
        if steps:
            steps[number % len(steps)]()

    def _usual_steps(self) -> Iterator[Step]:
        if len(self._keys) < MESSAGES_AT_MOST:
            yield from (partial(self.send, key) for key in range(KEYS))
        for client in self._clients:
            for message in range(len(self._keys)):
                if self._may_be_given(message, client):
                    yield partial(self.dispatch, message, client)
            if client.queue:
                yield partial(self.take, client)
            if client.orders:
                yield partial(self.read, client)
            for message in client.unacknowledged:
                yield partial(self.settle, Kind.ACK, client, message, CallOutcome.UNKNOWN)

    def _disturbances(self, number: int) -> Iterator[Step]:
        if len(self._clients) < CONSUMERS:
            yield partial(self._join, number)
        if self._clients:
            yield partial(self._fault, number)
        for client in self._clients:
            yield partial(self.redeliver, client)
            yield partial(self._leave, client)
            yield partial(self.lose, client, number)
            for message in client.unacknowledged:
                yield partial(self.settle, Kind.NACK, client, message, CallOutcome.OK)

    def client(self, number: int) -> _Client:
        """One of the connected clients."""
        return self._clients[number]

    # ------------------------------------------------------------------------------------------------------- the broker

    def dispatch(self, message: int, client: _Client) -> None:
        """The broker dispatches a message to a consumer."""
        self._outstanding[message] = client.name
        self._now_ns += 10
        client.queue.append((message, self._now_ns))

    def _may_be_given(self, message: int, client: _Client) -> bool:
        if message in self._acknowledged or message in self._outstanding:
            return False
        same = [
            other for other in range(len(self._keys)) if self._is_keyed and self._keys[other] == self._keys[message]
        ]
        waits = any(other < message and other not in self._acknowledged | self._outstanding.keys() for other in same)
        elsewhere = any(self._outstanding.get(other, client.name) != client.name for other in same)
        return not waits and not elsewhere

    def read(self, client: _Client) -> None:
        """The broker reads the first command in flight."""
        kind, message = client.orders.popleft()
        match kind:
            case Kind.ACK:
                self._acknowledged.add(message)
                self._outstanding.pop(message, None)
            case Kind.NACK if self._outstanding.get(message) == client.name:
                del self._outstanding[message]
            case Kind.REDELIVER:
                self._give_back(client)
            case _:
                pass

    def _give_back(self, client: _Client) -> None:
        self._outstanding = {message: name for message, name in self._outstanding.items() if name != client.name}

    # ------------------------------------------------------------------------------------------------- the applications

    def send(self, key: int) -> None:
        """A producer sends a message, which is stored at once."""
        self._keys.append(key)
        message = len(self._keys) - 1
        self._record(Kind.SEND, message, key=self._key(message))

    def take(self, client: _Client) -> None:
        """The application receives the first message of the queue."""
        message, sent_ns = client.queue.popleft()
        client.unacknowledged.append(message)
        sent = {"invoked_ns": sent_ns if self._is_proxied else None}
        self._record(Kind.DISPATCH, message, client, key=self._key(message), **sent)

    def settle(self, kind: Kind, client: _Client, message: int, outcome: CallOutcome) -> None:
        """The application acks or nacks a message; the broker reads that later."""
        client.unacknowledged.remove(message)
        client.orders.append((kind, message))
        self._record(kind, message, client, outcome=outcome)

    def redeliver(self, client: _Client) -> None:
        """The application requests redelivery of everything; the broker reads that later."""
        client.queue.clear()
        client.orders.append((Kind.REDELIVER, -1))
        self._record(Kind.REDELIVER, None, client)

    # ------------------------------------------------------------------------------------------------ their connections

    def _join(self, number: int) -> None:
        names = {f"c{one}" for one in range(CONSUMERS)} - {client.name for client in self._clients}
        if names:
            self._clients.append(_Client(sorted(names)[number % len(names)]))
            self._record(Kind.SUBSCRIBE, None, self._clients[-1])

    def _leave(self, client: _Client) -> None:
        self._clients.remove(client)
        self._give_back(client)
        self._record(Kind.UNSUBSCRIBE, None, client)

    def lose(self, client: _Client, number: int) -> None:
        """Only a proxy sees it. The client's queue and its acks may survive it."""
        self._give_back(client)
        client.orders = deque(one for one in client.orders if one[0] is Kind.ACK and number % 2)
        if number % 4 >= 2:
            client.queue.clear()
        if self._is_proxied:
            self._record(Kind.UNSUBSCRIBE, None, client)

    def _fault(self, number: int) -> None:
        """All connections are lost, and a fault is recorded."""
        for client in self._clients:
            self.lose(client, number)
        self._record(Kind.FAULT, None, fault="unload")

    # -------------------------------------------------------------------------------------------------------- recording

    def _key(self, message: int) -> str:
        return f"k{self._keys[message]}"

    def _record(self, kind: Kind, message: int | None, client: _Client | None = None, **fields: Any) -> None:
        at = {} if message is None else {"ledger": 1, "entry": message}
        who = {} if client is None else {**self._who, "consumer": client.name}
        self._now_ns += 10
        times = {"invoked_ns": self._now_ns, "completed_ns": self._now_ns + 1}
        self.recorded.append(event(kind, **(times | at | who | fields)))


def recorded(drawn: Sequence[tuple[int, int]], subscription_type: str, *, is_proxied: bool) -> list[Recorded]:
    """The recorded events for these choices."""
    simulated = Simulated(subscription_type, is_proxied=is_proxied)
    for kind, number in drawn:
        simulated.do(kind, number)
    return simulated.recorded
