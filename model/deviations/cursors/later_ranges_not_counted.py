from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import nth_by_first_ranges
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import peeked, skipping_up_to
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="later-ranges-not-counted",
    rule="ACK-04",
    also=("ACK-01",),
    statement="A skip that passes several acknowledged ranges skips fewer messages than it was asked for: it allows for the first ranges only, one or more. A peek returns an earlier entry in the same way, perhaps an acknowledged one.",
    cause="ManagedCursorImpl.getNumIndividualDeletedEntriesToSkip keeps the upper end of a range (state.startPosition), although it returns that object to its recycler. If it becomes the upper end of the next range, that range seems to begin before the kept position, and it and those after it are not counted. The recycler decides which object is used again, so the same request may be right the next time (2.11.0). Netty 4.1.72 and later take the oldest object first. 2.10.5 and 3.0.2 return only the lower end.",
    upstream=("apache/pulsar#20262", "apache/pulsar#20326"),
    side="broker",
    releases=(">=2.8.2,<2.8.5", ">=2.9.1,<2.9.6", ">=2.10.0,<2.10.5", ">=2.11.0,<2.11.2", "==3.0.0"),
    seen=("2.11.0", "2.8.2", "2.9.1", "2.10.1", "3.0.0"),
    gone=("2.10.5", "3.3.6", "4.0.8"),
    fixed=(
        "2.8.5",
        "2.9.6",
        "2.11.2",
    ),
    occurrence="In 10 of 10 replays each on 2.11.0 and 2.9.1 where 12 ranges are passed, in 0 of 10 on 2.10.5; the longer ones in 7 of 8 on 3.0.0, and 8 of 8 each on 2.8.2 and 2.10.1.",
    shadow=Shadow(
        name="test_a_skip_counts_the_first_of_several_ranges_at_least",
        by="small history",
        statement="A skip does not even allow for the first acknowledged range, or passes one range only and skips too few.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    return skipping_up_to(state, step, nth_by_first_ranges)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return peeked(broken, nth_by_first_ranges)
