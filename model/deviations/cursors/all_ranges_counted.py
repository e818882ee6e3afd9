from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import nth_by_all_ranges
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import peeked, skipping_up_to
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="all-ranges-counted",
    rule="ACK-04",
    also=("ACK-01", "ACK-03"),
    statement="A skip that passes an acknowledged range skips more messages than it was asked for, as if all acknowledged ranges of the subscription were before its end. Nobody receives these messages. A peek returns a later entry in the same way.",
    cause="The same as that of `later-ranges-not-counted`. Before 4.1.72, Netty's recycler takes the newest object first, so the kept upper end of a range becomes the lower end of the next one. The unacknowledged entries between them then count as none, and the search goes on to the last range.",
    upstream=("apache/pulsar#20262", "apache/pulsar#20326"),
    side="broker",
    releases=(">=2.5.0,<2.8.2", "==2.9.0"),
    seen=("2.7.4", "2.6.0", "2.8.1", "2.9.0"),
    gone=("2.10.5", "4.0.8"),
    fixed=("2.8.2",),
    occurrence="In 10 of 10 replays each on 2.8.1 and 2.9.0 where 12 ranges are passed, and in 9 of 9 on 2.7.4; in 5 of 6 others on 2.6.0. Always as far as all ranges reach.",
    shadow=Shadow(
        name="test_a_skip_that_counts_all_ranges_goes_exactly_so_far_and_passes_one",
        by="small history",
        statement="A skip goes further by another number of messages, or passes no acknowledged range and skips too many.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    return skipping_up_to(state, step, nth_by_all_ranges)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return peeked(broken, nth_by_all_ranges)
