from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from model.deduplication.observer import without_pending
from model.deduplication.producer_state import UNKNOWN_STATUS, ProducerState, ProducerStates
from model.deduplication.topic_observer import WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.clusters import lost_from_home
from model.deviations.loads import judged_by
from model.deviations.subscriptions import judged_from
from model.events import Answer, Duplicate, Late, LogRead, Refused, Sent, Unknown
from model.example.judge import judge_step
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Send
from model.sessions import Session
from model.vocabulary import Entry

ENTRY = Deviation(
    name="overlapping-batch-dropped",
    rule="DEDUP-02",
    also=("REPL-01",),
    statement="A batch that starts with a stored message is confirmed and dropped, including its new messages. A cluster with deduplication drops it, too, if another one without it replicates it to it.",
    cause="MessageDeduplication compares only the lowest id of a batch (4.0.8, lines 455 and 468). Upstream changed the Java client instead, which no longer builds such batches (apache/pulsar#6326). Other clients still do (apache/pulsar-client-go#1395). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    upstream=("apache/pulsar#6273",),
    side="broker",
    releases=(">=2.5.1,<=5.0.1", "==2.5.0"),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.6.0", "2.5.1", "2.5.0", "5.0.1"),
    shadow=Shadow(name="unknown-stored", statement="A message whose duplicate status is unknown is stored."),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """A batch that is confirmed as a duplicate was dropped, although it need not have been one: as if it was not sent.

    Whether entries before it are stored that have its messages, too, is not known yet. If they are in flight, it was
    confirmed too early.
    """
    if state.past is not None and (changed := _without_dropped(state.past.before, step)) is not None:
        yield from judged_from(*changed)


def _without_dropped(before: Example, step: Step) -> tuple[Example, Step] | None:
    """The state before a step and the step, as if batches that overlap were not sent; None if it has none."""
    changed = step
    for number, late in enumerate(step.late):
        session = before.sessions.get(late.session)
        nth = sum(one.session == late.session for one in step.late[:number])
        sent = session.pending[nth].entries if session is not None and nth < len(session.pending) else ()
        if session is not None and (kept := _not_dropped(before, session, sent, late.answers)):
            entries, answers = kept
            pending = [replace(one, entries=entries) if one.entries is sent else one for one in session.pending]
            before = before.with_session(late.session, replace(session, pending=tuple(pending)))
            others = tuple(Late(one.session, answers) if one is late else one for one in changed.late)
            changed = structs.replace(changed, late=others)
    match step.operation, step.outcome:
        case Send(name, entries, wait=True), Sent(answers=answers) if name in before.sessions:
            if kept := _not_dropped(before, before.sessions[name], entries, answers):
                entries, answers = kept
                changed = structs.replace(
                    changed,
                    operation=structs.replace(step.operation, entries=entries),
                    outcome=structs.replace(step.outcome, answers=answers),
                )
        case _:
            pass
    return None if changed is step else (before, changed)


def _not_dropped(
    state: Example, session: Session, entries: tuple[Entry, ...], answers: tuple[Answer, ...]
) -> tuple[tuple[Entry, ...], tuple[Answer, ...]] | None:
    """The other entries with their answers; None if no batch was dropped, or it is known to be a duplicate."""
    view = state.topics.get(session.topic)
    if view is None or not view.enabled or not any(map(_leaves_open, answers)):
        return None
    states = view.state(session.producer)
    possible = [each for one in states for each in (one, *without_pending(one, only_failing=True))]

    pairs = list(zip(entries, answers, strict=False))
    kept = [(entry, answer) for entry, answer in pairs if not any(_drops(one, entry, answer) for one in possible)]
    if len(kept) in (0, len(pairs)) or len(pairs) < len(entries):
        return None
    return tuple(entry for entry, _ in kept), tuple(answer for _, answer in kept)


def _leaves_open(answer: Answer) -> bool:
    """Whether it is not known after this answer which entries are stored."""
    return isinstance(answer, Unknown) or (isinstance(answer, Refused) and answer.code == UNKNOWN_STATUS)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case WrongAnswer(answer=Refused(code=code)), _ if code == UNKNOWN_STATUS:
            changed = _without_dropped(state, step)
            return None if changed is None else judge_step(*changed)
        case WrongAnswer(view, _, _, Duplicate()) as wrong, _ if view.enabled:
            return judged_by(broken, wrong, _dropped)
        case _, LogRead(is_deduplicated=True):
            overlapping = state.remote_of(step.operation.topic).droppable.overlapping
            return lost_from_home(broken, lambda one: one.position in overlapping)
        case _:
            return None


def _dropped(states: ProducerStates, entry: Entry, answer: Answer) -> ProducerStates:
    """The states after a batch was confirmed as a duplicate by its lowest id."""
    return frozenset(
        replace(one, persisted=max(one.persisted, entry.lowest), is_recovered=False)
        for one in states
        if not one.cut and _drops(one, entry, answer)
    )


def _drops(state: ProducerState, entry: Entry, answer: Answer) -> bool:
    """Whether a batch was confirmed as a duplicate of which only the lowest id need be written."""
    is_confirmed = isinstance(answer, Duplicate) and entry.lowest < entry.highest
    return is_confirmed and entry.lowest <= state.written and state.persisted < entry.highest
