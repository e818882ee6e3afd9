"""On chunked topics. The observer of document 000 still knows it itself, so its entry is with those."""

from __future__ import annotations

from model.deviations.chunk_logs import ONLY_LAST, explained
from model.example.state import Example, Judgement
from model.example.step import Step
from model.excuses import DEVIATIONS
from model.judgement import Broken

ENTRY = DEVIATIONS["chunk-only-last-deduplicated"]


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explained(broken, ONLY_LAST, lambda _: set())
