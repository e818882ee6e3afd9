from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import crowded_out, explained
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import Undispatched

ENTRY = Deviation(
    name="replay-filtered-after-limit",
    rule="KEY-16",
    statement="The classic dispatcher takes as many messages from the front of the replay queue as there are permits, and then omits those that it cannot dispatch. If these are all, messages after them wait, although their consumers have permits.",
    cause="PersistentDispatcherMultipleConsumers.readMoreEntries (4.0: ...Classic) asks for the first positions of the replay queue (getMessagesToReplayNow), as many as there are permits in all. Only then does PersistentStickyKeyDispatcherMultipleConsumers.filterOutEntriesWillBeDiscarded omit those whose hash no consumer claims, or whose consumer has no permits. If none is left, and a read is pending at the end of the topic, it reads nothing. The debug log says that all entries in the replay queue were filtered out. apache/pulsar#23231, in 4.0, filters before the limit.",
    upstream=("apache/pulsar#22245", "apache/pulsar#23231"),
    side="broker",
    releases=(">=3.0.2,<4.0", "==2.10.5"),
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=("3.3.6", "4.0.8 classic", "3.0.2", "2.10.5", "5.0.0-M1 classic"),
    occurrence="Every time, in 9 steps.",
    shadow=Shadow(
        name="test_messages_that_cannot_be_dispatched_crowd_out_later_ones_only_if_they_exhaust_the_permits",
        by="small history",
        statement="With a permit more than messages in the way, or none in the replay queue, the later ones are due.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic, is_waiting=True) as missing if not topic.drains:
            return explained(broken, crowded_out(missing) & missing.left)
        case _:
            return None
