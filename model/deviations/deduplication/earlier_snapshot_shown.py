from __future__ import annotations

import msgspec.structs

from model.deduplication.snapshots import WrongId, ids_read
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import ReadSnapshot

ENTRY = Deviation(
    name="earlier-snapshot-shown",
    rule="DEDUP-10",
    statement="If a snapshot is taken while the one before it waits for the ledger of the cursor, the stats show the ids of the earlier one at the position of the later one.",
    cause="ManagedCursorImpl.asyncMarkDelete sets lastMarkDeleteEntry without writing it if the rate is limited (line 1588, 2.6.0). The earlier mark-delete, which waited for a new ledger, then replaces it (internalMarkDelete, line 1641). The position in the stats is not that of lastMarkDeleteEntry. What is stored has its own position, so a recovery replays what it lacks. In 2.10.1 a later entry stays.",
    side="broker",
    releases=(">=2.5.1,<=2.9.0",),
    seen=("2.6.0", "2.8.1", "2.9.0"),
    gone=("2.10.1", "4.0.8"),
    occurrence="In 4 of 10 replays. 2.5.1 and 2.7.4 have the same code.",
    shadow=Shadow(
        name="test_a_snapshot_with_ids_from_before_the_reload_or_of_no_earlier_snapshot_breaks_the_rule",
        by="small history",
        statement="The ids in a snapshot are older than the last load of the topic, or not those of an earlier snapshot.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The ids are those of an earlier snapshot. Between two is at least the number of entries after which one is due."""
    match step.operation, broken.evidence:
        case ReadSnapshot(topic), WrongId(view, read) if view.snapshots is not None:
            stored = (one for states in view.states.values() for state in states for one in state.entries)
            up_to = sorted(
                {one.position for one in stored if one.position is not None and one.position <= read.position}
            )
            for earlier in _since_load(state, topic, up_to[: -view.snapshots.schedule.entries]):
                if isinstance(ids_read(view, msgspec.structs.replace(read, position=earlier)), Allowed):
                    return broken.passing()
            return None
        case _:
            return None


def _since_load(state: Example, topic: str, positions: list[Position]) -> list[Position]:
    """Those of these positions that are after the last one at which the topic was loaded."""
    for past in state.trace:
        if is_reloaded_by(past, topic):
            last = past.before.topics[topic].last_position
            return [one for one in positions if last is None or one > last]
    return positions
