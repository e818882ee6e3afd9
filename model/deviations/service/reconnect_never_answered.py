from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import reconnects
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import OpenProducer
from model.service.unexpected import Silence

ENTRY = Deviation(
    name="reconnect-never-answered",
    rule="SERVE-01",
    statement="A producer whose connection ended opens again while the broker handles that end. It is never answered.",
    cause="AbstractTopic.tryOverwriteOldProducer waits for ServerCnx.checkConnectionLiveness of the former connection (since apache/pulsar#21220). That runs in the thread of channelInactive, and after it: it sends a ping and waits, but nothing comes any more, and the close after the timeout has nothing to end. Since apache/pulsar#23123 (3.0.7 and 3.3.2) it first asks whether the connection is active. pulsar-client retries after its timeout.",
    upstream=("apache/pulsar#23123",),
    side="broker",
    seldom=(">=3.0.3,<3.0.7", ">=3.2.0,<3.3.2"),
    seen=("3.2.2",),
    gone=("3.3.6",),
    occurrence="Once in a check of three minutes, in none of 30 replays. With `channelInactive` held for 0.3 s in 4 of 5 reconnects on 3.2.2, and in none of 5 on 3.3.6.",
    has_history=False,
    shadow=Shadow(
        name="test_only_a_producer_that_comes_back_after_its_connection_ended_is_never_answered_by_a_deviation",
        by="small history",
        statement="A producer is not answered although no connection of its name ended, or after its topic was reloaded, or another request is not answered.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Silence(request=request) if request.startswith(OpenProducer.__name__) and reconnects(state, step):
            return broken.passing()
        case _:
            return None
