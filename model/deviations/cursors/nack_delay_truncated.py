from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_by
from model.events import RedeliveryTimes
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.backoff import EARLY_MS

PRECISION_MS: Final = 256.0
ENTRY = Deviation(
    name="nack-delay-truncated",
    rule="ACK-13",
    statement="The Go client rounds the time of a nacked message's redelivery down to a multiple of 256 ms. So it requests redelivery up to 256 ms before the delay has passed.",
    cause="putNackEntry of negativeAcksTracker clears the low bits of the time (trimLowerBit), eight of them by default (defaultNackPrecisionBit, 0.19.0). The Java client's tracker does the same since PIP-393.",
    upstream=("apache/pulsar-client-go#1410", "apache/pulsar#23601"),
    side="client",
    clients={"go": "==0.19.0"},
    seen=("Go client 0.19.0",),
    occurrence="In 2 of 4 replays of its history: it depends on the time of the nack.",
    shadow=Shadow(
        name="test_a_truncated_delay_of_go_is_less_than_256_ms_too_short",
        by="small history",
        statement="The client requests redelivery at once.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case RedeliveryTimes(first_ms=first_ms, after_ms=delays) if is_by(state, step, "go"):
            is_truncated = all(after >= first_ms - PRECISION_MS - EARLY_MS for after in delays)
            return broken.passing() if is_truncated else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, last = steps
    if isinstance(last.outcome, RedeliveryTimes):
        times = (1.0, *last.outcome.after_ms[1:])
        yield (*before, replace(last, outcome=replace(last.outcome, after_ms=times)))
