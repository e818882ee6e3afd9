"""On chunked topics. The observer of document 000 still knows it itself, so its entry is with those."""

from __future__ import annotations

from model.deviations.chunk_logs import EACH, explained, split
from model.deviations.clusters import lost_from_home
from model.events import LogRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.excuses import DEVIATIONS
from model.judgement import Broken

ENTRY = DEVIATIONS["chunk-each-deduplicated"]


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.outcome:
        case LogRead(is_deduplicated=True):
            later = state.remote_of(step.operation.topic).droppable.later_chunks
            lost = lost_from_home(broken, lambda one: one.position in later)
            return lost or explained(broken, EACH, split)
        case _:
            return explained(broken, EACH, split)
