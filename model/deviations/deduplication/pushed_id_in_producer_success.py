from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.producer_state import ProducerState
from model.deduplication.topic_observer import TopicView
from model.deviation import Deviation, Shadow
from model.example.state import Example
from model.example.step import Step
from model.operations import OpenProducer
from model.producer_operations import AwaitProducers

ENTRY = Deviation(
    name="pushed-id-in-producer-success",
    aliases=("pending-id-told",),
    rule="DEDUP-09",
    statement="A reopened producer gets the sequence id of a write in flight as its last sequence id. The write fails afterwards, or is lost with its topic.",
    cause="MessageDeduplication.getLastPublishedSequenceId returns the highest id pushed, not the highest id persisted (4.0.8, lines 657 and 658). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    searched="2026-11-30: `getLastPublishedSequenceId highestSequencedPushed write failed`; nearest is apache/pulsar#5218: a message that is sent again after a failed write is dropped.",
    side="broker",
    releases=(">=2.5.1,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.5.1", "5.0.1"),
    shadow=Shadow(name="no-reset-after-failure", statement="A failed write does not reset the highest id pushed."),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The id in ProducerSuccess was only pushed, so its write may still fail, or be lost with the topic."""
    match step.operation:
        case OpenProducer(topic=topic, cluster=str(cluster)) if (topic, cluster) in state.replication.views:
            views = state.replication.views
            if _reports(view := views[topic, cluster]):
                views = {**views, (topic, cluster): view.on_each_state(_unreported)}
                yield replace(state, replication=replace(state.replication, views=views))
        case OpenProducer(topic=topic) | AwaitProducers(topic) if topic in state.topics:
            if _reports(view := state.topics[topic]):
                yield state.with_topic(topic, view.on_each_state(_unreported))
        case _:
            pass


def _reports(view: TopicView) -> bool:
    return any(stored.is_reported for states in view.states.values() for one in states for stored in one.entries)


def _unreported(state: ProducerState) -> tuple[ProducerState]:
    return (replace(state, entries=tuple(replace(one, is_reported=False) for one in state.entries)),)
