"""The steps of a recording that may have caused its violation: faults, deeds of administrators, and failed answers.

The model may find a violation without them: an internal error, for example, breaks a rule whatever happened before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.engine.slices import topics_of
from conformance.history.document import Step
from model.events import Refused, Unknown
from model.operations import Send


def causes(steps: Sequence[Step]) -> Iterator[int]:
    """The places of these steps before the last one, on its topic or on no topic; the last ones first."""
    topics = topics_of([step.operation for step in steps])
    for at in range(len(steps) - 2, -1, -1):
        is_about_it = topics[-1] is None or topics[at] in (None, topics[-1])
        if is_about_it and _may_be_cause(steps[at]):
            yield at


def _may_be_cause(step: Step) -> bool:
    is_interrupted = isinstance(step.operation, Send) and step.operation.interruption is not None
    is_amiss = bool(step.unexpected) or isinstance(step.outcome, Refused | Unknown)
    return step.operation.may_be_cause or is_interrupted or is_amiss
