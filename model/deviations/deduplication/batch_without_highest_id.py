from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from model.deduplication.producer_state import ProducerState, ProducerStates
from model.deduplication.topic_observer import WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.loads import changing, judged_by, sessions_in
from model.events import Answer, Duplicate
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.operations import Send
from model.sessions import Session
from model.vocabulary import Entry

ENTRY = Deviation(
    name="batch-without-highest-id",
    aliases=("batch-end-unsent",),
    rule="DEDUP-03",
    statement="pulsar-client sends no highest sequence id with a batch. The broker counts only the lowest, and stores the other messages again if they are sent again individually.",
    cause="The client sets highest_sequence_id neither in CommandSend nor in the metadata of the batch; nor does the Go client. The broker then takes the lowest id instead (4.0.8: MessageDeduplication, lines 432 and 533, and 253 in the replay).",
    upstream=("apache/pulsar-client-go#1395",),
    side="client",
    clients={"official": "<=3.13.0", "go": "==0.19.0"},
    seen=("pulsar-client 3.13.0", "pulsar-client 3.12.0", "Go client 0.19.0"),
    shadow=Shadow(name="strict-less-than", statement="A message with the highest id persisted is stored again."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A batch is a duplicate by its lowest id."""
    match broken.evidence:
        case WrongAnswer(view, _, _, Duplicate()) as wrong if view.enabled:
            return judged_by(broken, wrong, partial(_by_lowest, _sent_by(state, step)))
        case _:
            return None


def _by_lowest(batches: frozenset[Entry], states: ProducerStates, entry: Entry, answer: Answer) -> ProducerStates:
    """The states after one of these batches was confirmed as a duplicate by its lowest id."""
    if not isinstance(answer, Duplicate) or entry not in batches:
        return frozenset()
    return frozenset(
        replace(one, persisted=max(one.persisted, entry.lowest), is_recovered=False)
        for one in states
        if not one.cut and entry.lowest <= max(one.persisted, one.written)
    )


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The broker counts only the lowest id of each batch that pulsar-client sent so far."""
    for session in _answered(state, step):
        batches = frozenset(_batches_of(state, session))
        yield from changing(state, session, partial(_counting_lowest, batches=batches))


def _answered(state: Example, step: Step) -> Iterator[Session]:
    """The sessions of pulsar-client whose entries were judged in a step."""
    return (one for one in sessions_in(state, step) if one.client == "official" and not one.is_chunking)


def _sent_by(state: Example, step: Step) -> frozenset[Entry]:
    """The batches of pulsar-client whose answers a step may have."""
    sends = [step.operation.entries] if isinstance(step.operation, Send) else []
    sessions = list(_answered(state, step))
    of_this = (entry for entries in sends if sessions for entry in entries if entry.is_batch)
    return frozenset(of_this).union(*(_batches_of(state, session) for session in sessions))


def _batches_of(state: Example, session: Session) -> Iterator[Entry]:
    """The batches that pulsar-client sent to the session's topic by its producer's name."""
    for past in state.trace:
        if isinstance(past.step.operation, Send) and _is_alike(past, past.step.operation.session, session):
            yield from (entry for entry in past.step.operation.entries if entry.is_batch)


def _is_alike(past: Past, name: str, session: Session) -> bool:
    one = past.before.sessions.get(name)
    key = None if one is None else (one.topic, one.producer, one.client, one.is_chunking)
    return key == (session.topic, session.producer, session.client, session.is_chunking)


def _counting_lowest(state: ProducerState, batches: frozenset[Entry]) -> ProducerState:
    entries = tuple(replace(one, counts=one.entry.lowest) if one.entry in batches else one for one in state.entries)
    after = replace(state, entries=entries)
    pushed = after.written if state.pushed == state.written else state.pushed
    return replace(after, pushed=pushed, persisted=min(state.persisted, after.written))
