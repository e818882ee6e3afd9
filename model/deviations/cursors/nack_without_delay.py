from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_by
from model.events import RedeliveryTimes
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

AT_ONCE_MS = 100.0
"""How long a redelivery that nothing delays may take."""
ENTRY = Deviation(
    name="nack-without-delay",
    rule="ACK-13",
    statement="The Rust client requests redelivery of a nacked message at once, without the delay that document 003 promises.",
    cause="nack of the consumer's engine sends CommandRedeliverUnacknowledgedMessages for the message; the client has no tracker of nacks and no option for a delay (6.9.1).",
    upstream=("streamnative/pulsar-rs#247", "streamnative/pulsar-rs#419"),
    side="client",
    clients={"rust": "==6.9.1"},
    seen=("Rust client 6.9.1",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_redelivery_at_once_is_one_without_a_delay",
        by="small history",
        statement="The Rust client requests redelivery after half of the delay.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case RedeliveryTimes(first_ms=first_ms, after_ms=delays) if is_by(state, step, "rust"):
            return broken.passing() if all(after < min(AT_ONCE_MS, first_ms) for after in delays) else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The first redelivery comes after half of the delay."""
    *before, last = steps
    if isinstance(last.outcome, RedeliveryTimes):
        times = (last.outcome.first_ms / 2, *last.outcome.after_ms[1:])
        yield (*before, replace(last, outcome=replace(last.outcome, after_ms=times)))
