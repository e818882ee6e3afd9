from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import sent_beyond_permits
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.consumers import SHARED

ENTRY = Deviation(
    name="single-consumer-dispatch-counts-entries",
    rule="SERVE-13",
    statement="The consumer of an Exclusive or Failover subscription is sent as many entries as it gave permits for messages. With batches of ten messages, a consumer that asks for ten gets a hundred.",
    cause="PersistentDispatcherSingleActiveConsumer.calculateToRead reads as many entries as the consumer has permits, unless preciseDispatcherFlowControl is on, which divides them by the average number of messages in an entry; it is off by default.",
    upstream=("apache/pulsar#6719",),
    side="broker",
    releases=("<=5.0.1",),
    seen=("5.0.1", "4.0.8", "3.3.6"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_permits_that_count_entries_explain_no_more_entries",
        by="small history",
        statement="A consumer is sent more entries than it gave permits, or is a consumer of a Shared subscription.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """No more entries than permits, of which some are batches."""
    match sent_beyond_permits(state, step, broken):
        case kind, sizes if kind not in SHARED and max(sizes, default=1) != 1:
            return broken.passing()
        case _:
            return None
