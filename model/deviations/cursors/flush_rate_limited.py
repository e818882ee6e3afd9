from __future__ import annotations

from model.cursors.cursor import SLACK_MS
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.counts import PersistedLate

ENTRY = Deviation(
    name="flush-rate-limited",
    rule="ACK-08",
    statement="The periodic flush shares the acks' rate limiter. If the limiter rejects it, a dirty cursor is not persisted until a later flush.",
    cause="ManagedCursorImpl.flush calls asyncMarkDelete, which asks the same rate limiter as every ack (4.0.8, line 2173) and leaves the cursor dirty if that rejects. The flush came with apache/pulsar#8634. The limiter also answers an ack as if the broker had stored it (apache/pulsar#26484). 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
    side="broker",
    releases=(">=2.8.2,<=5.0.1",),
    seen=("4.0.8", "2.10.1", "2.9.1", "2.8.2", "5.0.1"),
    shadow=Shadow(name="never-flushed", statement="A dirty cursor is never flushed."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case PersistedLate(after_ms, persisting):
            latest = persisting.flush_ms + persisting.interval_ms + SLACK_MS
            return broken.passing() if after_ms <= latest else None
        case _:
            return None
