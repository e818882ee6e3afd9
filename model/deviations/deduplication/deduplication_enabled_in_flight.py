from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from model.deduplication.producer_state import NONE, ProducerState
from model.deduplication.topic_observer import TopicView
from model.deviation import Deviation, Shadow
from model.deviations.loads import recovered_to_last, recovering
from model.deviations.subscriptions import before
from model.example.state import Example
from model.example.step import Step
from model.vocabulary import Entry

ENTRY = Deviation(
    name="deduplication-enabled-in-flight",
    aliases=("switched-on-in-flight",),
    rule="DEDUP-03",
    statement="A message that is in flight while deduplication is enabled is stored again if it is sent again.",
    cause="MessageDeduplication.recordMessagePersisted raises only the highest id persisted (4.0.8, line 533), and isDuplicate compares with the highest id pushed first (line 454). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    searched="2026-11-30: `enable deduplication in flight recordMessagePersisted highestSequencedPushed`; nothing similar.",
    side="broker",
    releases=("==2.6.0", ">=2.11,<=5.0.1"),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0", "5.0.1"),
    shadow=Shadow(
        name="test_an_entry_in_flight_is_stored_again_only_once_and_not_after_a_duplicate",
        by="small history",
        statement="The message is stored again although it was confirmed as a duplicate before, or a message of another producer is.",
        missed_before=True,
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """*Pushed* stays as it was for entries that were in flight. A recovery counts the id that was stored last."""
    yield from recovering(state, _to_last)
    former = before(state)
    for topic, view in state.topics.items():
        was = former.topics.get(topic)
        if was is not None and view.enabled:
            other = view.on_each_state(partial(_lagging, in_flight=_in_flight(former, step, topic)))
            if other.states != view.states:
                yield state.with_topic(topic, other)


def _in_flight(former: Example, step: Step, topic: str) -> frozenset[Entry]:
    """The entries that were sent without deduplication, and may have been stored in this step."""
    waiting = (former.sessions[one.session] for one in step.late if one.session in former.sessions)
    pending = (sent for one in waiting if one.topic == topic for sent in one.pending if not sent.deduplication)
    states = (one for every in former.topics[topic].states.values() for one in every)
    unknown = (stored.entry for one in states for stored in one.entries if stored.maybe is not None)
    return frozenset(entry for sent in pending for entry in sent.entries).union(unknown)


def _lagging(state: ProducerState, in_flight: frozenset[Entry]) -> Iterator[ProducerState]:
    yield state
    counted = state.entries[state.since :]
    if counted and state.pushed != NONE and all(stored.entry in in_flight for stored in counted):
        yield replace(state, pushed=NONE)


def _to_last(view: TopicView, state: ProducerState) -> Iterator[ProducerState]:
    after = recovered_to_last(state)
    if after.written < state.written:
        yield after
