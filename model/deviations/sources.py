"""What happened to the entries of a source before its log was read, for the deviations of sources."""

from __future__ import annotations

from model.applications.sources import Missing, Owed
from model.example.state import Example, Past
from model.example.step import Step
from model.failpoints import WRITE_FAILURES
from model.operations import SetFailpoint


def owed_before(past: Past, missing: Missing) -> Owed | None:
    """What a source owed before a step as the entry of this number; None: it had not reached it."""
    source = past.before.applications.sources.get(missing.source)
    return source.owed[missing.number] if source is not None and missing.number < len(source.owed) else None


def sets_write_failures(step: Step, topic: str) -> bool:
    """Whether writes to a topic may fail from a step on."""
    match step.operation:
        case SetFailpoint(name, kind):
            return name == topic and kind in WRITE_FAILURES
        case _:
            return False


def writes_may_fail(state: Example, topic: str) -> bool:
    """Whether writes to a topic may fail, or those in flight still may."""
    return topic in state.lingering | state.topics_with(WRITE_FAILURES)
