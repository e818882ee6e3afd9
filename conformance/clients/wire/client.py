"""The wire client, a small client of Pulsar's binary protocol that controls exactly what is on the wire.

It sends each request once: without retries, reconnects, batching or sequence ids of its own. Every wait has a deadline.
"""

from __future__ import annotations

from typing import Final, Literal

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused, error_name, message_id_of
from conformance.clients.security.service import Service
from conformance.clients.wire.connection import Connection
from conformance.clients.wire.consumer import KeyShared, Kind, WireConsumer
from conformance.clients.wire.producer import WireProducer
from conformance.clients.wire.pump import pump_of_this_thread
from conformance.harness_error import HarnessError
from conformance.wait import Deadline
from model.log import EARLIEST, Position
from model.vocabulary import AccessMode

MAX_LOOKUP_HOPS: Final = 10
"""The most redirects of one look-up."""

_START: Final = {"earliest": EARLIEST, "latest": Position(2**63 - 1, 2**63 - 1)}
"""The start positions of a reader: two of the protocol that no entry has."""


class WireClient:
    """One client: a connection to each broker it needs, with its producers and consumers.

    Not for use by several threads at once.
    """

    def __init__(self, service: Service | str, *, listener_name: str | None = None) -> None:
        """Make a client without a connection; usually :meth:`connect` is better."""
        self._service = Service.of(service)
        self._listener_name = listener_name
        self._pump = pump_of_this_thread()
        self._connections: dict[str, Connection] = {}
        self._open: list[WireProducer | WireConsumer] = []
        self._ended: str | None = None
        self._last_id = 0

    @classmethod
    def connect(cls, service: Service | str, *, timeout_s: float, listener_name: str | None = None) -> WireClient:
        """Connect to a service; ``listener_name`` is the advertised listener that look-ups ask for.

        Raises :class:`ConnectionLost`, :class:`NoAnswer`, :class:`ServerRefused`.
        """
        client = cls(service, listener_name=listener_name)
        client._connection_to(client._service.url, Deadline.after(timeout_s))
        return client

    def lookup(self, topic: str, *, timeout_s: float) -> str:
        """Look up the owner of a topic, connect to it, and return its address; this loads the topic.

        Raises :class:`ConnectionLost`, :class:`NoAnswer`, :class:`ServerRefused`.
        """
        return self._owner(topic, Deadline.after(timeout_s)).address

    def partitions(self, topic: str, *, timeout_s: float) -> int:
        """A topic's number of partitions; 0 if it is not partitioned. Raises the same as :meth:`lookup`."""
        connection = self._connection_to(self._service.url, deadline := Deadline.after(timeout_s))
        ask = pb.CommandPartitionedTopicMetadata(topic=topic)
        answer = connection.ask(ask, deadline, what=f"asking for the partitions of {topic}")
        response = answer.partitioned_metadata_response
        if response.response == response.Failed:
            raise ServerRefused(error_name(response.error), response.message)
        return response.partitions

    def open_producer(
        self,
        topic: str,
        *,
        name: str | None,
        timeout_s: float,
        access: AccessMode = "Shared",
        epoch: int | None = None,
    ) -> WireProducer:
        """Open a producer on a topic, with this name or, for None, one of the broker's.

        ``epoch``: the topic's epoch from its last ProducerSuccess, with which it reconnects. With WaitForExclusive it
        may be queued.

        Raises :class:`ServerRefused`, e.g. ``ProducerBusy`` while the name is connected, :class:`ConnectionLost`,
        :class:`NoAnswer`.
        """
        deadline = Deadline.after(timeout_s)
        producer = WireProducer(self._owner(topic, deadline), self._next_id())
        producer.open(topic, name=name, deadline=deadline, access=access, epoch=epoch)
        self._keep(producer)
        return producer

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        kind: Kind,
        durable: bool = True,
        initial: Literal["earliest", "latest"] = "latest",
        start_after: Position | None = None,
        consumer_name: str | None = None,
        priority: int | None = None,
        key_shared: KeyShared | None = None,
        replicated: bool | None = None,
        timeout_s: float,
    ) -> WireConsumer:
        """Subscribe to a topic; the broker dispatches nothing before the consumer's first permits.

        ``initial`` counts where the subscription is new, ``start_after`` where it is not durable (a reader's): the
        first entry is then the one after it. Raises :class:`ServerRefused`, e.g. ``ConsumerBusy``,
        :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        deadline = Deadline.after(timeout_s)
        consumer = WireConsumer(self._owner(topic, deadline), self._next_id())
        ask = pb.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            sub_type=pb.CommandSubscribe.SubType.Value(kind),
            consumer_name=consumer_name,
            priority_level=priority,
            durable=durable,
            initial_position=pb.CommandSubscribe.Earliest if initial == "earliest" else pb.CommandSubscribe.Latest,
            start_message_id=None if durable else message_id_of(_first_wanted(start_after, initial)),
            replicate_subscription_state=replicated,
            key_shared_meta=key_shared.to_wire() if key_shared is not None else None,
        )
        consumer.subscribe(ask, deadline)
        self._keep(consumer)
        return consumer

    @property
    def port(self) -> int | None:
        """The client port of its last connection; None without one."""
        found = [connection.local_port for connection in self._connections.values() if connection.is_open]
        return found[-1] if found else None

    def flush(self, *, timeout_s: float = 10.0) -> None:
        """Wait until everything is written to the sockets. Raises ``ConnectionLost``, ``NoAnswer``."""
        deadline = Deadline.after(timeout_s)
        for connection in self._connections.values():
            connection.flush(deadline)

    def pump(self, *, for_s: float = 0.0) -> None:
        """Read what has arrived, and what arrives within so many seconds."""
        self._pump.turn(for_s)

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Close producers and consumers, then the connections, even if the broker does not answer."""
        deadline = Deadline.after(timeout_s)
        for endpoint in self._open:
            try:
                endpoint.close(timeout_s=deadline.left_s)
            except (ConnectionLost, NoAnswer, ServerRefused):
                continue
        self._ended = "this client was closed"
        for connection in self._connections.values():
            connection.close()

    def abort(self) -> None:
        """Reset all connections, as if this process crashed."""
        self._ended = "this client died"
        for connection in self._connections.values():
            connection.abort()

    # -------------------------------------------------------------------------------------------------- in private

    def _connection_to(self, broker_url: str, deadline: Deadline, *, through: Service | None = None) -> Connection:
        """The connection to this broker, a new one if necessary."""
        if self._ended is not None:
            raise ConnectionLost(self._ended)
        connection = self._connections.get(broker_url)
        if connection is None or not connection.is_open:
            connection = Connection.open(self._service.at(broker_url), self._pump, deadline, through=through)
            self._connections[broker_url] = connection
        return connection

    def _owner(self, topic: str, deadline: Deadline) -> Connection:
        service_url, authoritative = self._service.url, False
        for _ in range(MAX_LOOKUP_HOPS):
            connection = self._connection_to(service_url, deadline)
            response = self._ask_owner(connection, topic, deadline, authoritative=authoritative)
            service_url, authoritative = self._address_in(response), response.authoritative
            if response.response == response.Connect:
                # A standalone broker, too, has clients keep the address that they connected to.
                through = self._service if response.proxy_through_service_url else None
                return self._connection_to(service_url, deadline, through=through)
        raise HarnessError(f"the brokers sent the look-up of {topic} on more than {MAX_LOOKUP_HOPS} times")

    def _ask_owner(
        self, connection: Connection, topic: str, deadline: Deadline, *, authoritative: bool
    ) -> pb.CommandLookupTopicResponse:
        ask = pb.CommandLookupTopic(
            topic=topic, authoritative=authoritative, advertised_listener_name=self._listener_name
        )
        answer = connection.ask(ask, deadline, what=f"looking up {topic}")
        if answer.lookup_response.response == pb.CommandLookupTopicResponse.Failed:
            raise ServerRefused(error_name(answer.lookup_response.error), answer.lookup_response.message)
        return answer.lookup_response

    def _address_in(self, response: pb.CommandLookupTopicResponse) -> str:
        """The address in a look-up's answer; with TLS always one with TLS."""
        if not self._service.is_tls:
            return response.broker_service_url
        if not response.broker_service_url_tls:
            raise HarnessError(
                f"the broker at {self._service} sends its clients to {response.broker_service_url or 'nowhere'}, "
                "an address without TLS"
            )
        return response.broker_service_url_tls

    def _keep(self, endpoint: WireProducer | WireConsumer) -> None:
        """Register a producer or consumer to close with the client, without those that are closed already."""
        self._open = [it for it in self._open if it.is_open]
        self._open.append(endpoint)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _first_wanted(start_after: Position | None, initial: Literal["earliest", "latest"]) -> Position:
    """The start entry for a reader: brokers step back by one entry and read after that."""
    if start_after is None:
        return _START[initial]
    return Position(start_after.ledger, start_after.entry + 1)
