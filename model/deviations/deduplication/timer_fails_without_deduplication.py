from __future__ import annotations

from model.deduplication.due import MissedByTimer
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="timer-fails-without-deduplication",
    rule="DEDUP-11a",
    statement="If the broker has a topic without deduplication, the timer takes no snapshot of the topics that come after it in the broker's list of topics. Those have only the snapshots that are due by the number of entries.",
    cause="MessageDeduplication.takeSnapshot, which the timer calls for every topic, asks for the mark-delete position of a cursor that a topic without deduplication does not have (line 495, 2.11.0). The NullPointerException ends the round of the timer (BrokerService, line 541). In 3.3.6 takeSnapshot returns at once if deduplication is not enabled.",
    side="broker",
    releases=(">=2.7.0,<=3.0.0",),
    seen=("2.11.0", "2.10.5", "2.9.1", "2.8.2", "3.0.0", "2.8.1", "2.7.4", "2.7.0", "2.7.2"),
    gone=("3.3.6", "4.0.8"),
    occurrence="In 4 of 4 replays of 8 steps, with the exception in the broker's log. 2.10.1 has the same code.",
    shadow=Shadow(
        name="test_a_timer_that_fails_excuses_no_snapshot_that_is_due_by_entries",
        by="small history",
        statement="No snapshot is taken after the number of entries that it is due after.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return broken.passing() if isinstance(broken.evidence, MissedByTimer) else None
