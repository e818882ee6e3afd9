"""Facts about a topic that several deviations ask for, from the state and from the steps before it."""

from __future__ import annotations

from model.events import Skipped
from model.example.state import Example
from model.operations import CreateTopic
from model.subscriptions.state import TrackedTopic
from model.vocabulary import partition_name


def tracked(state: Example, topic: str | None) -> TrackedTopic | None:
    return state.consumption.topics.get(topic or "")


def is_empty(state: Example, topic: str | None) -> bool:
    """Whether a topic has no entries."""
    one = tracked(state, topic)
    return one is not None and not one.log.ledgers


def is_reopened(state: Example, topic: str | None) -> bool:
    """Whether a topic was terminated, and reloaded since."""
    one = tracked(state, topic)
    return one is not None and one.is_reopened


def is_new(state: Example, topic: str | None) -> bool:
    """Whether nothing was done to a topic since it was created."""
    for past in state.trace:
        operation = past.step.operation
        if isinstance(operation, CreateTopic):
            names = {operation.topic, *(partition_name(operation.topic, n) for n in range(operation.partitions))}
            if topic in names:
                return True
        elif operation.topic == topic and not isinstance(past.step.outcome, Skipped):
            return False
    return False
