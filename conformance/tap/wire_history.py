"""Translates what a proxy records into the events of a history.

The wire shows all that the rules of a history need, except for what happens to a topic elsewhere: a kill, an unload, an
administrator's operation. So times in which such a thing may have happened are recorded as ``unseen``: from when the
broker closes something, or nobody is connected to a topic, until the next producer or consumer is connected. What an
application's own operations make unknown (a seek, an unsubscribe) makes its subscription one that is not judged as a
whole. Nothing is recorded that the wire does not show.

It has one thread, and gets the events in order, the answers of the admin API (:class:`TopicLook`) among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from conformance.history.recorded import CallOutcome
from conformance.proxy.events import Blind, Command, ConnectionClosed, ConnectionOpened, ConnectionRefused, Event
from conformance.tap.consumers import Consumers
from conformance.tap.handles import FailedLook, TapConnection, TopicLook
from conformance.tap.producers import Producers
from conformance.tap.times import NOTICED_WITHIN_NS, ns
from conformance.tap.topics import Topics


class WireHistory:
    """Translates the events of one proxy."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._producers = producers = Producers(topics)
        self._consumers = consumers = Consumers(topics)
        self._connections: dict[int, TapConnection] = {}
        self._handlers: dict[tuple[str, str], Callable[[TapConnection, Command, int], None]] = {
            ("PRODUCER_SUCCESS", "to-client"): producers.created,
            ("SEND", "to-broker"): producers.send,
            ("SEND_RECEIPT", "to-client"): producers.receipt,
            ("SEND_ERROR", "to-client"): producers.send_error,
            ("CLOSE_PRODUCER", "to-broker"): producers.close,
            ("CLOSE_PRODUCER", "to-client"): producers.closed_by_broker,
            ("SUBSCRIBE", "to-broker"): consumers.subscribe,
            ("MESSAGE", "to-client"): consumers.message,
            ("ACK", "to-broker"): consumers.ack,
            ("ACK_RESPONSE", "to-client"): consumers.ack_response,
            ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "to-broker"): consumers.redeliver,
            ("SEEK", "to-broker"): consumers.seek,
            ("UNSUBSCRIBE", "to-broker"): consumers.unsubscribe,
            ("CLOSE_CONSUMER", "to-broker"): consumers.close,
            ("CLOSE_CONSUMER", "to-client"): consumers.closed_by_broker,
            ("SUCCESS", "to-client"): self._answer,
            ("ERROR", "to-client"): self._answer,
            ("UNREADABLE", "to-broker"): self._unreadable,
            ("UNREADABLE", "to-client"): self._unreadable,
        }

    def take(self, event: Event | TopicLook | FailedLook) -> None:
        """Take the next event."""
        match event:
            case Command():
                handler = self._handlers.get((event.kind, event.direction))
                connection = self._connections.get(event.connection)
                if handler is not None and connection is not None and event.passed_at_s is not None:
                    handler(connection, event, ns(event.came_at_s))
            case TopicLook():
                self._topics.looked(event)
                self._topics.settled(event.topic)
            case FailedLook():
                self._topics.settled(event.topic)
            case ConnectionOpened():
                self._connections[event.connection] = TapConnection()
            case ConnectionClosed():
                self._closed(event)
            case ConnectionRefused(reason=reason):
                self._topics.say_once(f"A client was refused: {reason}")
            case Blind():
                self._blind(event)
            case _:
                assert_never(event)

    def end(self, at_ns: int) -> None:
        """End the times that are unseen; nothing happens after that."""
        for topic in self._topics.by_name.values():
            self._topics.seen(topic, at_ns)

    def _answer(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        """Handle SUCCESS or ERROR of a request."""
        is_success = command.kind == "SUCCESS"
        request_id = -1 if command.request_id is None else command.request_id
        subscribing = connection.subscribing.pop(request_id, None)
        if subscribing is not None and is_success:
            self._consumers.subscribed(connection, *subscribing, at_ns)
        elif subscribing is not None:
            self._topics.settled(subscribing[1].topic.name)
        closing = connection.closing.pop(request_id, None)
        if closing is not None:
            closing(at_ns, is_success)

    def _closed(self, event: ConnectionClosed) -> None:
        connection = self._connections.pop(event.connection, None)
        if connection is None:
            return
        at_ns = ns(event.at_s)
        noticed_ns = at_ns - NOTICED_WITHIN_NS
        if event.by == "broker":
            for topic in connection.topics():
                self._topics.unseen(topic, noticed_ns)
        for _, consumer in connection.subscribing.values():
            self._topics.settled(consumer.topic.name)
        for pending in connection.acks.values():
            self._consumers.acknowledged(pending, CallOutcome.UNKNOWN, at_ns)
        for answered in connection.closing.values():
            answered(at_ns, None)
        for producer_id in tuple(connection.producers):
            self._producers.left(connection, producer_id, at_ns)
        for consumer_id, consumer in tuple(connection.consumers.items()):
            left_ns = noticed_ns if consumer.left_ns is None else min(noticed_ns, consumer.left_ns)
            self._consumers.left(connection, consumer_id, left_ns, at_ns)

    def _blind(self, event: Blind) -> None:
        self._topics.say_once(
            "A connection is not Pulsar's protocol in plaintext, and nothing of it is recorded: clients connect to the "
            "tap without TLS (pulsar://), and the tap uses TLS to a broker at pulsar+ssl://"
        )
        self._lose_sight(self._connections.get(event.connection), ns(event.at_s))

    def _unreadable(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        self._topics.say_once(f"A command of {command.size_bytes} bytes cannot be read, and is passed on")
        self._lose_sight(connection, at_ns)

    def _lose_sight(self, connection: TapConnection | None, at_ns: int) -> None:
        """What happens on a connection is no longer known."""
        if connection is None:
            return
        why = "a connection that used it had commands that cannot be read"
        for topic in connection.topics():
            self._topics.unseen(topic, at_ns)
            topic.trouble = why
            for subscription in topic.subscriptions.values():
                subscription.trouble = why
