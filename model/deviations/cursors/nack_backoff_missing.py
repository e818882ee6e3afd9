from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import RedeliveryTimes
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.backoff import EARLY_MS

ENTRY = Deviation(
    name="nack-backoff-missing",
    aliases=("back-off-constant",),
    rule="ACK-13",
    statement="pulsar-client requests redelivery of a nacked message after the same delay each time. Document 003 promises a delay that doubles.",
    cause="Consumers of pulsar-client have one delay (negative_ack_redelivery_delay_ms) and no schedule. The Java client has one (negativeAckRedeliveryBackoff), and so has the Go client (NackBackoffPolicy), which an application has to set.",
    upstream=("apache/pulsar-client-cpp#92",),
    side="client",
    clients={"official": "<=3.13.0", "java": "==4.0.8", "go": "==0.19.0"},
    seen=("pulsar-client 3.13.0", "Java client 4.0.8", "Go client 0.19.0"),
    shadow=Shadow(name="back-off-too-short", statement="The client requests redelivery after half of the delay."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case RedeliveryTimes(first_ms=first_ms, after_ms=delays):
            is_first_delay = all(after >= first_ms - EARLY_MS for after in delays)
            return broken.passing() if is_first_delay else None
        case _:
            return None
