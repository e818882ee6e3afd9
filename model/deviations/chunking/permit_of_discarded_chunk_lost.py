from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.chunking.evidence import ChunksUndispatched
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import last_chunks_discarded
from model.deviations.facts import subscribed_by
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Subscribe
from model.vocabulary import IN_ORDER

ENTRY = Deviation(
    name="permit-of-discarded-chunk-lost",
    rule="CHUNK-15",
    also=("CHUNK-03", "CHUNK-09", "CHUNK-14"),
    statement="If a consumer discards the last chunk of a message, because it did not receive the chunks before it, its client never gives that permit back. After half of the receiver queue the broker dispatches nothing to it any more.",
    cause="processMessageChunk returns the permit of each chunk but the last one, whose permit the application's receive returns. A last chunk without its first ones reaches no application. ConsumerImpl of the Java client (4.0.8) and consumer_partition.go of the Go client (0.19.0) do the same.",
    upstream=("apache/pulsar#26675", "apache/pulsar#26661"),
    side="client",
    clients={"java": "==4.0.8", "go": "==0.19.0"},
    seen=("Java client 4.0.8", "Go client 0.19.0"),
    occurrence="Every time, with a receiver queue of one message.",
    shadow=Shadow(
        name="test_a_consumer_has_no_permits_left_only_after_so_many_discarded_last_chunks",
        by="small history",
        statement="Entries are not dispatched to a consumer that has permits left, or whose client is another one.",
    ),
)
_CLIENTS = ("java", "go")


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ChunksUndispatched() as undispatched:
            without = [_is_without_permits(state, step, name) for name in undispatched.consumers]
            is_in_order = all(one.kind in IN_ORDER for one in undispatched.consumers.values())
            return broken.passing() if without and (any(without) if is_in_order else all(without)) else None
        case _:
            return None


def _is_without_permits(state: Example, step: Step, name: str) -> bool:
    """Whether a consumer of one of the clients discarded more last chunks than its client waits for before it gives
    permits."""
    request = subscribed_by(state, name)
    if request is None or (request.library or "").partition(":")[0] not in _CLIENTS:
        return False
    return last_chunks_discarded(state, step, name) > request.queue - max(1, request.queue // 2)


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for changes in ({"queue": 3}, {"library": "pulsar-client:3.13.0"}):
        yield tuple(
            replace(one, operation=replace(one.operation, **changes)) if isinstance(one.operation, Subscribe) else one
            for one in steps
        )
