from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication import observer
from model.deduplication.producer_state import NONE, ProducerState, ProducerStates
from model.deduplication.snapshots import WrongId
from model.deduplication.topic_observer import WrongAnswer, WrongLastSequenceId
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.loads import answers_in, may_be_loaded_twice, may_recover_twice, sessions_in
from model.deviations.subscriptions import judged_from
from model.events import Opened, Stored, Unknown
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.operations import OpenProducer, ReadSnapshot
from model.sessions import Session
from model.vocabulary import Entry

ENTRY = Deviation(
    name="second-recovery-not-awaited",
    aliases=("recovery-race",),
    rule="DEDUP-12",
    statement="A topic with its own policy accepts producers before its deduplication state has recovered. Messages that they send again are stored again.",
    cause="Nothing sets the status to Recovering, so MessageDeduplication.checkStatus starts a second replay with the same cursor when a topic with policies is loaded. Producers wait for only one of the two (4.0.8, lines 156 to 217). In 4.0.8 the second replay finds the cursor at its end and completes, while another thread still applies what the first one read (ManagedLedgerReplayTask, in 4.0.6 but not in 4.0.0). Before that, both replays end on one thread, but the one that nobody waits for may complete last and restore older ids for a moment. 5.0.0-M1 sets the status.",
    upstream=("apache/pulsar#25954",),
    side="broker",
    releases=(">=3.3.6,<=4.2.4", ">=2.10.1,<=2.11.0"),
    seen=("4.0.8", "3.3.6", "2.10.1", "2.11.0", "4.2.4"),
    gone=("5.0.1",),
    shadow=Shadow(
        name="test_a_recovery_that_is_over_excuses_no_missing_sequence_id",
        by="small history",
        statement="A sequence id is still missing two seconds after the topic was loaded. Before that, it looks the same as the deviation.",
        missed_before=True,
    ),
    occurrence="On 4.0.8 in about one of twenty first unloads, and every time with the failpoint `replay-slow`. On 3.3.6 once in some hundred unloads. That it restores older ids was seen once (`docs/histories/DEDUP-12-on-4.0.8.json`).",
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The producer is served before all entries are replayed, or a second replay sets its ids back."""
    match broken.evidence:
        case WrongAnswer(view, states, entry, answer, around) if view.has_policy:
            topics = {one.topic for one in sessions_in(state, step) if may_recover_twice(state, step, one.topic)}
            loaded = frozenset(stored for topic in topics for stored in _at_load(state, topic))
            late = [low for one in states for low in _replayed_in_part(one)]
            if isinstance(answer, Stored):
                late += [low for one in states for low in _set_back(one, loaded)]
            after = frozenset(new for low in late for new in observer.send(low, entry, answer, around))
            return broken.passing(after) if topics and after else None
        case WrongLastSequenceId(_, states, highest) if may_recover_twice(state, step, step.operation.topic):
            after = _reported_wrongly(states, highest, frozenset(_at_load(state, step.operation.topic or "")))
            return broken.passing(after) if after else None
        case WrongId(view, _, producer, highest) if isinstance(step.operation, ReadSnapshot):
            last = _last_before_race(state, step.operation.topic)
            replayed = (
                stored.highest
                for one in view.state(producer)
                for stored in one.entries[one.since :]
                if stored.is_counted and last is not None and (stored.position is None or stored.position <= last)
            )
            return broken.passing() if any(highest < one for one in replayed) else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """ProducerSuccess, or an entry without an answer, came before all entries were replayed, or ProducerSuccess after
    the second replay set the ids back."""
    past = state.past
    if past is None:
        return
    match step.operation, step.outcome:
        case OpenProducer(topic=topic, producer=name, cluster=None), Opened(last_sequence_id=int(highest)):
            if may_recover_twice(past.before, step, topic):
                loaded = frozenset(_at_load(past.before, topic))
                if late := _reported_wrongly(past.before.topics[topic].state(name), highest, loaded):
                    view = state.topics[topic]
                    yield state.with_topic(topic, view.with_states(name, view.state(name) | late))
        case _:
            yield from _sent_late(past.before, step)


def _reported_wrongly(states: ProducerStates, highest: int, loaded: frozenset[Entry]) -> ProducerStates:
    """The states in which the broker has this highest id, because its replay goes on."""
    low = (each for one in states for each in (*_replayed_in_part(one), *_set_back(one, loaded)))
    return frozenset(replace(one, is_recovered=False) for one in low if one.pushed == highest)


def _sent_late(before: Example, step: Step) -> Iterator[Example]:
    for session in sessions_in(before, step):
        if may_recover_twice(before, step, session.topic):
            view = before.topics[session.topic]
            states = view.state(session.producer)
            late = states.union(*(_replayed_in_part(one) for one in states))
            if late != states and (len(states) > 1 or _has_unknown_answers(step, session)):
                former = before.with_topic(session.topic, view.with_states(session.producer, late))
                yield from judged_from(former, step)


def _has_unknown_answers(step: Step, session: Session) -> bool:
    """Whether the client may have sent entries whose answers it does not say."""
    return session.client == "official" or any(isinstance(one, Unknown) for one in answers_in(step))


def _last_before_race(state: Example, topic: str) -> Position | None:
    """The last entry of a topic when it was last loaded with two recoveries."""
    now = state
    for past in state.trace:
        if is_reloaded_by(past, topic):
            if may_be_loaded_twice(now, topic):
                return past.before.topics[topic].last_position
            now = past.before
    return None


def _at_load(state: Example, topic: str) -> Iterator[Entry]:
    """The entries that a topic may have had when it was loaded."""
    reload = next((past for past in state.trace if is_reloaded_by(past, topic)), None)
    if reload is not None:
        for states in reload.after.topics[topic].states.values():
            yield from (stored.entry for one in states for stored in one.entries)


def _replayed_in_part(state: ProducerState) -> Iterator[ProducerState]:
    """The states of a broker that has replayed only some of the entries when it serves the producer first."""
    if state.is_recovered:
        ids = {NONE, *(stored.highest for stored in state.entries[state.since :])} - {state.written}
        yield from (_at(state, highest) for highest in ids)


def _set_back(state: ProducerState, loaded: frozenset[Entry]) -> Iterator[ProducerState]:
    """The state after the second replay set the ids back to those of the last entry that it replays."""
    replayed = [stored for stored in state.entries[state.since :] if stored.entry in loaded]
    whole = max((stored.highest for stored in replayed if not stored.entry.is_part), default=NONE)
    last = {stored.highest for stored in replayed[-1:]}
    yield from (_at(state, highest) for highest in {whole, *last} if highest < max(state.pushed, state.persisted))


def _at(state: ProducerState, highest: int) -> ProducerState:
    return replace(state, pushed=highest, persisted=highest)
