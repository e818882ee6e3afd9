from __future__ import annotations

from model.chunking.evidence import BeyondPermits, ChunksUndispatched, OutOfOrder
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import requested_after, sent_since_request
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.vocabulary import IN_ORDER

ENTRY = Deviation(
    name="redelivery-reads-in-parallel",
    rule="CHUNK-05",
    also=("CHUNK-03", "CHUNK-15"),
    statement="If a consumer of an Exclusive or Failover subscription requests redelivery while the broker reads, the broker starts a second read beside the first. It dispatches messages twice, or skips some until redelivery is requested again.",
    cause="PersistentDispatcherSingleActiveConsumer.internalRedeliverUnacknowledgedMessages sets havePendingRead to false, although cancelPendingReadRequest cannot cancel a read in progress. The completion of that read then clears the flag of the new one (4.0.8, 4.2.4, 5.0.0-M1 and 5.0.1).",
    upstream=("apache/pulsar#26174",),
    side="broker",
    seldom=("==3.3.6", "==4.0.8", ">=4.2.4,<=5.0.1"),
    seen=("4.0.8", "3.3.6", "4.2.4", "5.0.0-M1"),
    read=("5.0.1",),
    occurrence="In 10 of 200 replays on a standalone; with a bookie as a process of its own in 0 of 240 replays, and once in a check.",
    shadow=Shadow(
        name="test_a_redelivery_request_after_everything_was_read_starts_no_second_read",
        by="small history",
        statement="Messages are dispatched twice or skipped after a redelivery request, although all that was stored at the request had been read.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OutOfOrder() as out if _is_of_second_read(state, step, out):
            return broken.passing()
        case BeyondPermits() as beyond if _read_from(state, step, beyond) is not None:
            return broken.passing()
        case ChunksUndispatched() as undispatched if skipped := _skipped(state, step, undispatched):
            return broken.passing(skipped)
        case _:
            return None


def _is_of_second_read(state: Example, step: Step, out: OutOfOrder) -> bool:
    """Whether a message is sent twice, or after others that are skipped, and a read may have been in progress when its
    consumer requested redelivery."""
    requested = _read_from(state, step, out)
    if requested is None:
        return False
    consumer, at = out.state.consumers[out.consumer], out.position
    return at in consumer.holds or (consumer.last is not None and at > max(consumer.last, requested))


def _read_from(state: Example, step: Step, out: OutOfOrder | BeyondPermits) -> Position | None:
    """The last entry that a consumer had been sent when it requested redelivery, if a read of later ones may have been
    in progress. Each read takes all permits."""
    requested = requested_after(state, step, out)
    end = out.state.topics[out.state.consumers[out.consumer].subscription.topic].end
    return requested if requested is not None and end > requested else None


def _skipped(state: Example, step: Step, undispatched: ChunksUndispatched) -> frozenset[Position]:
    """The due entries up to the last that an ordered consumer was sent since it requested redelivery. What the first of
    two reads brings may come before what the second does, and is not sent again."""
    sent = [
        sent_since_request(state, step, name)
        for name, consumer in undispatched.consumers.items()
        if consumer.kind in IN_ORDER
    ]
    last = [max(each) for each in sent if each]
    return frozenset(position for position in undispatched.owed if any(position <= one for one in last))
