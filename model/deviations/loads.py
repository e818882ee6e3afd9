"""When a topic was loaded, and what its broker counts, for the deviations of deduplication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from model.deduplication.answers import Receive
from model.deduplication.producer_state import NONE, ProducerState, ProducerStates
from model.deduplication.topic_observer import Judges, TopicView, WrongAnswer
from model.deviations.facts import is_reloaded_by, pasts_since_load
from model.events import Answer, Opened, Sent, Unknown
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.operations import OpenProducer, Send
from model.producer_operations import AwaitProducers, ProducersRead
from model.sessions import Session
from model.vocabulary import Entry

RECOVERY_MS: Final = 2_000.0
"""The longest time that a recovery may continue after the broker accepts producers; it replays some tens of entries."""


def sessions_in(state: Example, step: Step) -> Iterator[Session]:
    """The sessions whose entries are judged in a step."""
    names = [one.session for one in step.late]
    if isinstance(step.operation, Send):
        names.append(step.operation.session)
    return (state.sessions[name] for name in dict.fromkeys(names) if name in state.sessions)


def answers_in(step: Step) -> Iterator[Answer]:
    """The answers that are judged in a step."""
    for one in step.late:
        yield from one.answers
    if isinstance(step.outcome, Sent):
        yield from step.outcome.answers


def unanswered(state: Example, topic: str, producer: str) -> Iterator[Entry]:
    """The entries of a producer that were sent to a topic and got no answer."""
    for past in state.trace:
        pending = {name: iter(session.pending) for name, session in past.before.sessions.items()}
        every = [(one.session, next(pending[one.session]).entries, one.answers) for one in past.step.late]
        match past.step.operation, past.step.outcome:
            case Send(name, entries, wait=True), Sent(answers=answers):
                every.append((name, entries, answers))
            case _:
                pass
        for name, entries, answers in every:
            session = past.before.sessions[name]
            if (session.topic, session.producer) == (topic, producer):
                pairs = zip(entries, answers, strict=False)
                yield from (entry for entry, answer in pairs if isinstance(answer, Unknown))


def judged_by(broken: Broken, wrong: WrongAnswer, judge: Receive[ProducerStates]) -> Judgement | None:
    """The step if the broker judges every entry of a send so; None if the wrong answer is still wrong.

    The receipts of entries with one id can be exchanged, so the wrong answer may be that of another entry.
    """
    judged = broken.passing(frozenset({Judges(judge)}))
    left = judged.evidence if isinstance(judged, Broken) else None
    is_left = isinstance(left, WrongAnswer) and (left.entry, left.answer) == (wrong.entry, wrong.answer)
    return None if is_left else judged


def is_created_by(past: Past, topic: str) -> bool:
    """Whether a step created a topic, or the partitioned topic that it belongs to."""
    return topic in past.after.topics and topic not in past.before.topics


def opens_in(past: Past, topic: str) -> bool:
    """Whether a producer of a topic was opened in a step."""
    match past.step.operation, past.step.outcome:
        case OpenProducer(topic=name), Opened():
            return name == topic
        case AwaitProducers(name), ProducersRead(activated=activated):
            return name == topic and bool(activated)
        case _:
            return False


def served_ms(state: Example, topic: str) -> float | None:
    """When a topic served its first producer since it was loaded; None: it has not."""
    served = [past.step.completed_ms for past in pasts_since_load(state, topic) if opens_in(past, topic)]
    return served[-1] if served else None


def is_loaded(state: Example, topic: str) -> bool:
    """Whether a topic has a producer since it was loaded, or was never reloaded."""
    return any(opens_in(past, topic) or is_created_by(past, topic) for past in pasts_since_load(state, topic))


def may_recover(state: Example, step: Step, topic: str) -> bool:
    """Whether a topic may not have recovered since its load: some time after it, and longer if recovery is slowed."""
    served = served_ms(state, topic)
    is_pending = any(session.pending and session.topic == topic for session in state.sessions.values())
    is_slow = is_pending or (topic, "replay-slow") in state.failpoints
    return is_slow or served is None or step.invoked_ms <= served + RECOVERY_MS


def changing(state: Example, session: Session, change: Callable[[ProducerState], ProducerState]) -> Iterator[Example]:
    """The state if the broker counts the entries of this producer otherwise."""
    view = state.topics.get(session.topic)
    if view is not None and view.enabled:
        states = frozenset(map(change, view.state(session.producer)))
        if states != view.state(session.producer):
            yield state.with_topic(session.topic, view.with_states(session.producer, states))


def recovering(
    state: Example, otherwise: Callable[[TopicView, ProducerState], Iterable[ProducerState]]
) -> Iterator[Example]:
    """The state after a reload, if producers may have recovered in other states, too."""
    after = state
    for topic, view in state.topics.items():
        if state.past is not None and view.enabled and is_reloaded_by(state.past, topic):
            states = {
                name: every.union(*(otherwise(view, one) for one in every)) for name, every in view.states.items()
            }
            if states != view.states:
                after = after.with_topic(topic, replace(view, states=states))
    if after is not state:
        yield after


def recovered_to_last(state: ProducerState) -> ProducerState:
    """The recovered state if the id that was stored last is the highest one that counts."""
    last = next((one.highest for one in reversed(state.entries[state.since :]) if one.is_counted), NONE)
    entries = tuple(
        replace(one, counts=NONE) if one.is_counted and one.highest > last else one for one in state.entries
    )
    return replace(state, entries=entries, pushed=last, persisted=last)


def may_recover_twice(state: Example, step: Step, topic: str | None) -> bool:
    """Whether a second recovery of a topic may continue."""
    return topic is not None and may_be_loaded_twice(state, topic) and may_recover(state, step, topic)


def may_be_loaded_twice(state: Example, topic: str) -> bool:
    """Whether a topic had its own policy when it was loaded last, or got it before it served a producer."""
    view = state.topics.get(topic)
    if view is None or not (view.enabled and view.has_policy and view.reloads):
        return False
    for past in pasts_since_load(state, topic):
        was = past.before.topics.get(topic)
        if was is not None and not was.has_policy:
            return served_ms(past.before, topic) is None
    return True
