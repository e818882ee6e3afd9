"""On chunked topics. The observer of document 000 still knows it itself, so its entry is with those."""

from __future__ import annotations

from model.deviations.chunk_logs import EACH, explained, split
from model.example.state import Example, Judgement
from model.example.step import Step
from model.excuses import DEVIATIONS
from model.judgement import Broken

ENTRY = DEVIATIONS["chunk-each-deduplicated"]


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explained(broken, EACH, split)
