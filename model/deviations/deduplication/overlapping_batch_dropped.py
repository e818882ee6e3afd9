from __future__ import annotations

from dataclasses import replace

from model.deduplication.topic_observer import WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.clusters import lost_from_home
from model.events import Duplicate, LogRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="overlapping-batch-dropped",
    rule="DEDUP-02",
    also=("REPL-01",),
    statement="A batch that starts with a stored message is confirmed and dropped, including its new messages. A cluster with deduplication drops it, too, if another one without it replicates it to it.",
    cause="MessageDeduplication compares only the lowest id of a batch (4.0.8, lines 455 and 468). Upstream changed the Java client instead, which no longer builds such batches (apache/pulsar#6326). Other clients still do (apache/pulsar-client-go#1395). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    upstream=("apache/pulsar#6273",),
    side="broker",
    releases=(">=2.5.1,<=5.0.1", "==2.5.0"),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0", "2.5.1", "2.5.0", "5.0.1"),
    shadow=Shadow(name="unknown-stored", statement="A message whose duplicate status is unknown is stored."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case WrongAnswer(view, states, entry, Duplicate()), _ if view.enabled and entry.lowest < entry.highest:
            after = frozenset(
                replace(one, persisted=max(one.persisted, entry.lowest), is_recovered=False)
                for one in states
                if not one.cut and one.persisted < entry.highest and entry.lowest <= one.written
            )
            return broken.passing(after) if after else None
        case _, LogRead(is_deduplicated=True):
            overlapping = state.remote_of(step.operation.topic).droppable.overlapping
            return lost_from_home(broken, lambda one: one.position in overlapping)
        case _:
            return None
