from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.facts import NO_ELEMENT
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="stats-race-with-recently-joined",
    rule="SERVE-01",
    statement="With the classic implementation, a request for the stats of a topic is answered with an internal error (500, without a message), if it comes while a recently joined consumer of a Key_Shared subscription joins, leaves or stops waiting.",
    cause="PersistentSubscription.getStats goes through the LinkedHashMap of the recently joined consumers, which the dispatcher changes in other threads: ConcurrentModificationException, in the broker's log (2.11.0, line 1154). Read in 2.7.4, 2.8.2, 2.10.1, 3.0.7, 3.1.0, 3.2.3 and 4.0.1. 3.3.5, 3.3.6 and 4.0.2 return a copy.",
    side="broker",
    releases=(">=2.7.4,<3.3.5",),
    switched_on={CLASSIC: (">=4.0,<4.0.2",)},
    seen=("2.11.0",),
    gone=("3.3.5", "3.3.6", "4.0.2", "4.0.8"),
    occurrence="Once in 23,000 requests, when thirty consumers were closed at once; in none of 30 replays.",
    has_history=False,
    shadow=Shadow(
        name="test_stats_fail_only_where_a_recently_joined_consumer_may_change",
        by="small history",
        statement="Stats fail without recently joined consumers, or with draining hashes, or with another error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(request=request, message=message, topic=topic) if request.startswith("GET stats "):
            has_joined = any(
                keyed.joined and subscription.topic == topic and not state.consumption.topics[topic].drains
                for subscription, keyed in state.consumption.keyed.items()
            )
            return broken.passing() if has_joined and message == NO_ELEMENT else None
        case _:
            return None
