"""What happened to a topic before its logs are read, as the trace of a state."""

from __future__ import annotations

from dataclasses import replace

from model.cluster_events import ReplicationSettings
from model.events import AnyOutcome, Done, Unknown
from model.example import Example
from model.example.state import Past
from model.example.step import Step
from model.operations import AnyOperation, Send, Unload
from model.replication.tracked import ClusterProducer, ReplicatedTopic, Replication
from model.vocabulary import Entry, Message

LARGEST_BYTES = 10_240
TOPIC = ReplicatedTopic(
    made=ReplicationSettings(("A", "B"), 100, 2000, 1, LARGEST_BYTES), is_replicated=True, deduplication=False
)

Before = tuple[ReplicatedTopic, AnyOperation, AnyOutcome]
"""A step that happened before, and the topic at that time."""


def reloading(cluster: str, *published: str) -> Before:
    """A cluster reloads the topic when these messages have been published, each at the cluster of its name."""
    at_each = {label: tuple(one for one in published if one.startswith(label.lower())) for label in "ABC"}
    return replace(TOPIC, published=at_each), Unload("t", cluster=cluster), Done()


def sending(*messages: str, size_bytes: int = LARGEST_BYTES) -> Before:
    """A producer at A sends these messages, of this size."""
    entries = tuple(Entry((Message(n, one, size_bytes=size_bytes),)) for n, one in enumerate(messages))
    return TOPIC, Send("p", entries), Unknown("cut")


def after(*before: Before, known: frozenset[str] = frozenset()) -> Example:
    """An example in which these steps happened."""
    state = Example(known=known)
    for topic, operation, outcome in before:
        producers = {"p": ClusterProducer("t", "A", "p")}
        then = replace(state, replication=Replication(topics={"t": topic}, producers=producers))
        step = Step(operation=operation, outcome=outcome, invoked_ms=0.0, completed_ms=0.0)
        state = replace(then, past=Past(then, step, then))
    return state
