from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import reconnects
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="reconnect-overflows-stack",
    rule="SERVE-01",
    statement="A producer whose connection ended opens again before the broker has handled that. It is refused with an internal error (StackOverflowError).",
    cause="AbstractTopic.tryOverwriteOldProducer asks ServerCnx.checkConnectionLiveness whether the producer that has the name is still connected. If its channel is inactive, the answer is there at once, and internalAddProducer is called again in the same call. channelInactive, which removes the old producer, runs in another thread: until then the two methods call each other until the stack is full (the same in 3.3.6, 4.0.1, 4.0.7, 4.0.8 and 4.2.4).",
    upstream=("apache/pulsar#24934", "apache/pulsar#21220"),
    side="broker",
    seldom=(">=3.3.6,<=4.2.4",),
    seen=("4.0.8", "3.3.6", "4.0.6"),
    read=("4.2.4",),
    occurrence="once on 4.0.8, in a run at a load of 25 on two cores; on both releases in 7 of 10 reconnects with `channelInactive` held for 0.3 s after it has cleared `isActive`",
    has_history=False,
    shadow=Shadow(
        name="test_a_stack_overflow_is_a_deviation_only_where_a_producer_comes_back_after_its_connection_ended",
        by="small history",
        statement="A producer is refused with StackOverflowError after its topic was reloaded, or although no connection of its name ended.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Refused(message=message) if "StackOverflowError" in message and reconnects(state, step):
            return broken.passing()
        case _:
            return None
