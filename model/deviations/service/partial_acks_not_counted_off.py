from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import elsewhere
from model.example.state import Example
from model.example.step import Step
from model.subscriptions.counts import Count

ENTRY = Deviation(
    name="partial-acks-not-counted-off",
    rule="SERVE-04",
    statement="The broker counts the acknowledged messages of a batch as unacknowledged at their consumer until the whole batch is acknowledged.",
    cause="Consumer.messageAcked lowers the count only in removePendingAcks, which it calls for a whole entry or for a batch without messages left (read in 2.6.0, 2.7.4, 2.8.2 and 2.9.1). 2.10.1 lowers it by the messages of each ack.",
    side="broker",
    releases=(">=2.6.0,<=2.9.1",),
    seen=("2.9.1", "2.8.2", "2.7.4", "2.6.0", "2.8.1", "2.9.0"),
    gone=("2.10.1", "4.0.8"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_acknowledged_parts_of_a_batch_are_still_counted_by_a_deviation_and_nothing_else_is",
        by="small history",
        statement="More messages are counted than the batch has, or those of a batch that is acknowledged as a whole.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """The messages that are acknowledged of the batches of which a consumer has the other ones, or had until a skip."""
    if wrong.of != "at consumer" or wrong.seen is None:
        return None
    consumer, seen = wrong.state.consumers[wrong.consumer], wrong.seen
    others = {*consumer.unacknowledged, *elsewhere(state, wrong.consumer).of(consumer)}
    entries = {(topic, place.position) for topic, place in others}
    messages = ((topic, place) for topic, at in entries for place in wrong.state.log(topic).places_at(at))
    return 1, sum(1 for message in messages if message not in others and seen.has_message(message[1]))
