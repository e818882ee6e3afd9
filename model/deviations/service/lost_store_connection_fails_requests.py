from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.deviation import Deviation, Shadow
from model.example.deployment import with_store
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import DisturbMetadataStore
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="lost-store-connection-fails-requests",
    rule="SERVE-01",
    statement="After the metadata store was killed and has started again, and until the broker is connected to it again, admin requests are answered with an internal error (ConnectionLoss).",
    cause="ZooKeeper's client fails a request that is sent, or waits, while it has no connection. ZKMetadataStore sends it once more after 100 ms, which is before ZooKeeper's client tries to connect again, and then passes the failure on as an internal error, instead of 503.",
    upstream=("apache/pulsar#17226",),
    side="broker",
    releases=(">=2.11.0,<=4.2.4",),
    seen=("4.2.4", "4.0.8", "3.3.6", "3.0.7", "2.11.0"),
    gone=("5.0.1",),
    occurrence="In 12 of 12 replays on 4.0.8, in 4 of 4 on each of the others, if the first request comes right after ZooKeeper is there again.",
    shadow=Shadow(
        name="test_a_killed_store_explains_no_other_error_and_none_later",
        by="small history",
        statement="The metadata store was only frozen, or is long there again, or an admin request is answered with another internal error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(interface="admin", code="500", message=message) if "ConnectionLoss" in message:
            return broken.passing() if _was_killed(state, step) else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, failed = steps
    yield tuple(one if not isinstance(one.operation, DisturbMetadataStore) else _frozen(one) for one in steps)
    other = tuple(
        replace(one, message="NullPointerException") for one in failed.unexpected if isinstance(one, ErrorAnswer)
    )
    yield (*before, replace(failed, unexpected=other))


def _was_killed(state: Example, step: Step) -> bool:
    """Whether the metadata store was killed, and the broker may not be connected to it again."""
    if with_store(state, step.at).service.store_away_until_ms is None:
        return False
    operations = (past.step.operation for past in state.trace)
    return next((one.how == "restart" for one in operations if isinstance(one, DisturbMetadataStore)), False)


def _frozen(step: Step) -> Step:
    return replace(step, operation=DisturbMetadataStore("freeze"))
