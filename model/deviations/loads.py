"""When a topic was loaded, and whose entries a step judges, for the deviations of deduplication."""

from __future__ import annotations

from collections.abc import Iterator

from model.deviations.facts import pasts_since_load
from model.events import Opened
from model.example.state import Example, Past
from model.example.step import Step
from model.operations import OpenProducer, Send
from model.producer_operations import AwaitProducers, ProducersRead
from model.sessions import Session


def sessions_in(state: Example, step: Step) -> Iterator[Session]:
    """The sessions whose entries are judged in a step."""
    names = [one.session for one in step.late]
    if isinstance(step.operation, Send):
        names.append(step.operation.session)
    return (state.sessions[name] for name in dict.fromkeys(names) if name in state.sessions)


def is_created_by(past: Past, topic: str) -> bool:
    """Whether a step created a topic, or the partitioned topic that it belongs to."""
    return topic in past.after.topics and topic not in past.before.topics


def opens_in(past: Past, topic: str) -> bool:
    """Whether a producer of a topic was opened in a step."""
    match past.step.operation, past.step.outcome:
        case OpenProducer(topic=name), Opened():
            return name == topic
        case AwaitProducers(name), ProducersRead(activated=activated):
            return name == topic and bool(activated)
        case _:
            return False


def served_ms(state: Example, topic: str) -> float | None:
    """When a topic served its first producer since it was loaded; None: it has not."""
    served = [past.step.completed_ms for past in pasts_since_load(state, topic) if opens_in(past, topic)]
    return served[-1] if served else None


def is_loaded(state: Example, topic: str) -> bool:
    """Whether a topic has a producer since it was loaded, or was never reloaded."""
    return any(opens_in(past, topic) or is_created_by(past, topic) for past in pasts_since_load(state, topic))
