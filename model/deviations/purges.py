"""What a broker that takes connected producers for inactive ones forgets, for the deviations of DEDUP-20."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from model.deduplication.inactivity import SLACK_MIN, forgotten
from model.deviations.facts import pasts_since_load
from model.example.state import Example, Past
from model.example.step import Step
from model.producer_operations import ProducersPurged, PurgeProducers

Marks = Callable[[Past, str], Mapping[str, bool]]
"""The producers of a topic that count as inactive from a step on (true), or no longer (false)."""


def forgetting(state: Example, step: Step, marks: Marks) -> Iterator[Example]:
    """The state after a purge that forgets those, too, which count as inactive by these marks."""
    match step.operation, step.outcome:
        case PurgeProducers(topic, minutes), ProducersPurged(timeout_min) if topic in state.topics:
            view = state.topics[topic]
            inactive_min = _inactive_min(state, topic, marks)
            gone = {name for name, passed in inactive_min.items() if passed + minutes + SLACK_MIN > timeout_min}
            if view.enabled and not gone.isdisjoint(view.activity.kept):
                states = {
                    name: ones.union(*map(forgotten, ones)) if name in gone else ones
                    for name, ones in view.states.items()
                }
                activity = replace(view.activity, kept=view.activity.kept - gone)
                yield state.with_topic(topic, replace(view, states=states, activity=activity))
        case _:
            return


def _inactive_min(state: Example, topic: str, marks: Marks) -> dict[str, int]:
    """Before the last step: for how many minutes producers count as inactive."""
    passed_min: dict[str, int] = {}
    for past in reversed(list(pasts_since_load(state, topic))[1:]):
        if (before := past.before.topics.get(topic)) is None:
            continue
        for producer, is_inactive in marks(past, topic).items():
            if is_inactive:
                passed_min[producer] = 0
            else:
                passed_min.pop(producer, None)
        match past.step.operation, past.step.outcome:
            case PurgeProducers(topic=at, minutes=minutes), ProducersPurged(timeout_min) if at == topic:
                later = {name: passed + minutes for name, passed in passed_min.items()}
                passed_min = {
                    name: passed for name, passed in later.items() if before.enabled and passed <= timeout_min
                }
            case _:
                pass
    return passed_min
