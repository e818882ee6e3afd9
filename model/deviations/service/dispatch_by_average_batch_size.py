from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import sent_beyond_permits
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="dispatch-by-average-batch-size",
    rule="SERVE-13",
    statement="Consumers are on a Shared subscription of a topic whose batches have different sizes. A consumer is sent several batches beyond its permits if large ones are followed by small ones.",
    cause="PersistentDispatcherMultipleConsumers.trySendMessagesToConsumers divides a consumer's permits by the average number of messages in the entries that it has read (apache/pulsar#7266), rounded down, not by those of the entries that it is about to send.",
    upstream=("apache/pulsar#7266", "apache/pulsar#10417"),
    side="broker",
    releases=("<=5.0.1",),
    seen=("5.0.1", "4.0.8", "3.3.6"),
    occurrence="Every time that the first entries of a read are larger than the others.",
    shadow=Shadow(
        name="test_the_average_explains_nothing_where_all_batches_are_alike",
        by="small history",
        statement="All entries of the topic have the same number of messages.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """No more entries than permits, of different sizes."""
    match sent_beyond_permits(state, step, broken):
        case "Shared", sizes if len(set(sizes)) != 1:
            return broken.passing()
        case _:
            return None
