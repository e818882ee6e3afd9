"""The participants of a history as subjects of sentences: sessions of producers, consumers, the broker, the suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from model.operations import AnyOperation, OpenProducer
from model.subscription_operations import Subscribe
from model.vocabulary import RequestScope

BROKER = "broker"
"""The actor of operations on the broker itself, or on a topic inside it."""

SUITE = "suite"
"""The actor of the suite's own operations, by the admin API or with a client of its own."""

CLIENTS = {"wire": "wire client", "official": "pulsar-client"}
"""The names of the two clients."""


def client_of(operation: OpenProducer | Subscribe) -> str:
    """The client of a producer or consumer."""
    return operation.library or CLIENTS[operation.client]


def of_topic(topic: str, scope: RequestScope) -> str:
    """What a request of an administrator is for."""
    match scope:
        case "topic":
            return f"topic {topic}"
        case "namespace":
            return f"the namespace of topic {topic}"
        case "bundle":
            return f"the bundle of topic {topic}"
        case _:
            assert_never(scope)


def at_cluster(cluster: str | None) -> str:
    """The cluster of an operation, if there are several."""
    return "" if cluster is None else f" at cluster {cluster}"


@dataclass(frozen=True, slots=True)
class Participants:
    """How each session was opened and each consumer subscribed, in the history so far."""

    sessions: dict[str, OpenProducer] = field(default_factory=dict)
    consumers: dict[str, Subscribe] = field(default_factory=dict)

    def add(self, operation: AnyOperation) -> None:
        """Add the session or consumer that this operation opens."""
        match operation:
            case OpenProducer(session=session):
                self.sessions[session] = operation
            case Subscribe(consumer=consumer):
                self.consumers[consumer] = operation
            case _:
                pass

    def producer(self, session: str) -> str:
        """A producer's session as the subject of a sentence."""
        opened = self.sessions.get(session)
        if opened is None:
            return f"session {session}, which was never opened,"
        return f"producer {opened.producer} (session {session}, {client_of(opened)}{at_cluster(opened.cluster)})"

    def consumer(self, name: str) -> str:
        """A consumer as the subject of a sentence."""
        subscribed = self.consumers.get(name)
        if subscribed is None:
            return f"consumer {name}, which never subscribed,"
        how = f"{subscribed.kind}, subscription {subscribed.subscription}, {client_of(subscribed)}"
        return f"consumer {name} ({how}{at_cluster(subscribed.cluster)})"
