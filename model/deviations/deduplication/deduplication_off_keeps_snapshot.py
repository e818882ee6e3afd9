from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.producer_state import ProducerState, StoredEntry
from model.deduplication.snapshots import WrongId, ids_read
from model.deduplication.topic_observer import TopicView
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.loads import is_loaded
from model.deviations.subscriptions import before
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import ReadSnapshot, Restart, SetDeduplication

ENTRY = Deviation(
    name="deduplication-off-keeps-snapshot",
    rule="DEDUP-09",
    also=("DEDUP-02", "DEDUP-10"),
    statement="A topic that is not loaded when deduplication is switched off keeps its snapshot. Once deduplication is on again, all that was stored in the meantime counts, and new messages with these sequence ids are dropped.",
    cause="MessageDeduplication.checkStatus deletes the cursor with the snapshot only if the status is Enabled (line 204, 2.6.0), but a topic that was just loaded has the status Disabled. Until then the cursor also keeps the topic's messages. 2.7.4 has a status Initialized, with which it deletes the cursor.",
    side="broker",
    releases=(">=2.5.1,<=2.6.0",),
    seen=("2.6.0",),
    gone=("2.7.4", "4.0.8"),
    occurrence="Every time; 2.5.1 has the same code.",
    shadow=Shadow(
        name="test_a_topic_that_was_loaded_when_deduplication_was_switched_off_keeps_no_snapshot",
        by="small history",
        statement="A topic whose producer was open when deduplication was switched off has a snapshot, or counts what was stored since.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Until deduplication is on again, the topic shows its last snapshot."""
    match step.operation, broken.evidence:
        case ReadSnapshot(topic), WrongId(view, read) if not view.enabled:
            kept = _kept(state, topic)
            is_shown = kept is not None and isinstance(ids_read(_counting(view, kept), read), Allowed)
            return broken.passing() if is_shown else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Once deduplication is on again, the recovery replays everything that was stored since, as if it had been on."""
    if not isinstance(step.operation, SetDeduplication | Restart):
        return
    former = before(state)
    for topic, view in state.topics.items():
        is_switched_on = view.enabled and not former.topics[topic].enabled
        if is_switched_on and (kept := _kept(former, topic)) is not None:
            yield state.with_topic(topic, _counting(view, kept).on_each_state(_replayed))


def _kept(state: Example, topic: str) -> TopicView | None:
    """The topic when deduplication was switched off, if it was not loaded then."""
    for past in state.trace:
        was, then = past.before.topics.get(topic), past.after.topics.get(topic)
        if was is None or then is None:
            return None
        if was.enabled and not then.enabled:
            return None if is_loaded(past.before, topic) and not is_reloaded_by(past, topic) else was
    return None


def _counting(view: TopicView, kept: TopicView) -> TopicView:
    """The topic if all entries count that counted when deduplication was switched off, and all since."""
    states = {
        name: frozenset(replace(one, since=was.since) for one in states for was in kept.state(name))
        for name, states in view.states.items()
    }
    return replace(view, states=states)


def _replayed(state: ProducerState) -> Iterator[ProducerState]:
    """The states after a replay of all entries, those without an answer stored or not."""
    for entries in _stored(state.entries):
        after = replace(state, entries=entries, failed=False)
        yield replace(after, pushed=after.written, persisted=after.written)


def _stored(entries: tuple[StoredEntry, ...]) -> Iterator[tuple[StoredEntry, ...]]:
    """What the log may have: of each send without an answer, some first entries."""
    first = next((n for n, one in enumerate(entries) if one.maybe is not None), None)
    if first is None:
        yield entries
        return
    send = entries[first].maybe
    end = next((n for n in range(first, len(entries)) if entries[n].maybe != send), len(entries))
    for stored_until in range(first, end + 1):
        certain = (*entries[:first], *(replace(one, maybe=None) for one in entries[first:stored_until]))
        for rest in _stored(entries[end:]):
            yield (*certain, *rest)
