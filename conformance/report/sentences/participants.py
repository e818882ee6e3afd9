"""Who acts in a history: producers' sessions, consumers, the broker and the suite, as subjects of sentences.

What they do is told elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.operations import AnyOperation, OpenProducer
from model.subscription_operations import Subscribe

BROKER = "broker"
"""The actor of what is done to the broker itself, or to a topic inside it."""

SUITE = "suite"
"""The actor of what the suite does by itself, over the REST interface or with a client of its own."""

CLIENTS = {"wire": "wire client", "official": "pulsar-client"}
"""How the two clients are called."""


def at_cluster(cluster: str | None) -> str:
    """Where something is done, if there are several clusters."""
    return "" if cluster is None else f" at cluster {cluster}"


@dataclass(frozen=True, slots=True)
class Participants:
    """How each session was opened, and each consumer subscribed, so far in a history that is told step by step."""

    sessions: dict[str, OpenProducer] = field(default_factory=dict)
    consumers: dict[str, Subscribe] = field(default_factory=dict)

    def meet(self, operation: AnyOperation) -> None:
        """Remember whoever enters with this operation."""
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
        return f"producer {opened.producer} (session {session}, {CLIENTS[opened.client]}{at_cluster(opened.cluster)})"

    def consumer(self, name: str) -> str:
        """A consumer as the subject of a sentence."""
        subscribed = self.consumers.get(name)
        if subscribed is None:
            return f"consumer {name}, which never subscribed,"
        how = f"{subscribed.kind}, subscription {subscribed.subscription}, {CLIENTS[subscribed.client]}"
        return f"consumer {name} ({how}{at_cluster(subscribed.cluster)})"
