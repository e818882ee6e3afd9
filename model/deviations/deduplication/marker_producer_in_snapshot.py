from __future__ import annotations

from typing import Final

from model.deduplication.snapshots import WrongId
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="marker-producer-in-snapshot",
    rule="DEDUP-10",
    statement="After a topic with replicated subscriptions was reloaded, the snapshot has `pulsar.marker`, the name in the markers of the cluster, as if it were a producer. It takes the place of one, and may displace a producer of users.",
    cause="MessageDeduplication.replayCursor takes the producer name and sequence id of every entry (4.0.8, lines 251 to 258). While messages are published, isDuplicate and recordMessagePersisted leave markers out (lines 284 and 488). 2.10.1, 2.11.0 and 3.3.6 have the same code. The change in apache/pulsar#25860 keeps it.",
    side="broker",
    releases=(">=2.10,<=5.0.1",),
    seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0", "5.0.1"),
    shadow=Shadow(
        name="test_only_the_name_in_markers_may_be_in_a_snapshot_and_only_after_a_reload",
        by="small history",
        statement="Before a reload the snapshot has the name in markers, or has another sequence id for it, or has another producer without entries.",
    ),
    occurrence="After every reload with a marker after the last snapshot: in 13 of 20 replays on four releases.",
)


MARKER_PRODUCER: Final = "pulsar.marker"
"""The producer name in the metadata of markers, all of which have sequence id 0."""


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The snapshot has that name, or lacks a producer whose place that takes."""
    match broken.evidence:
        case WrongId(view, read, producer) if view.has_markers and view.reloads:
            is_displaced = producer not in read.producers and view.names + 1 > view.snapshot_room
            is_concerned = producer == MARKER_PRODUCER or is_displaced
            return broken.passing() if is_concerned and read.producers.get(MARKER_PRODUCER) == 0 else None
        case _:
            return None
