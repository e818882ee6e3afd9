from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication import observer
from model.deduplication.producer_state import ProducerState
from model.deduplication.topic_observer import TopicView, WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by, pasts_since_load
from model.deviations.loads import answers_in, may_recover, sessions_in
from model.deviations.subscriptions import before
from model.events import Duplicate, Opened, Refused, Stored
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.operations import Unload

ENTRY = Deviation(
    name="topic-policy-applied-late",
    rule="DEDUP-01",
    also=("DEDUP-02", "DEDUP-09", "DEDUP-12"),
    statement="After a restart, a topic that switches deduplication off by its own policy, in a namespace that switches it on, is deduplicated until the broker has read the policy. A topic that switches it on is not, and forgets its sequence ids: what was stored before does not count any more.",
    cause="The broker reads the policies of a namespace's topics from its topic __change_events once it has loaded a topic of that namespace, and accepts producers of that topic before it has read them. Its log says that deduplication is enabled, and nothing about the policy yet (2.11.0). If deduplication is off without the policy, MessageDeduplication.checkStatus deletes the cursor with the snapshot as the topic is loaded. When the policy is read, the new cursor begins at the end of the log.",
    side="broker",
    releases=("==2.11.0",),
    seen=("2.11.0",),
    gone=("3.3.6", "4.0.8"),
    occurrence="In 6 of 6 replays of 6 steps; ids were forgotten in 4 of 4 replays.",
    shadow=Shadow(
        name="test_a_policy_that_is_applied_late_excuses_only_the_first_two_seconds_after_a_restart",
        by="small history",
        statement="A message is refused or confirmed as a duplicate although no earlier one had its sequence id, after an unload without a restart, or more than two seconds after the load.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A topic that switches deduplication off is deduplicated: the producer has sent an id as high. Or one that
    switches it on is not yet: what was stored before an entry does not count.
    """
    match broken.evidence:
        case WrongAnswer(view, states, entry, Stored() as answer, around) if view.enabled and view.has_policy:
            late = (low for one in states for low in _counting_from(one, len(one.entries)))
            after = frozenset(new for low in late for new in observer.send(low, entry, answer, around))
            is_unread = not any(_has_read(state, session.topic) for session in sessions_in(state, step))
            return broken.passing(after) if after and is_unread and _is_late(state, step) else None
        case WrongAnswer(view, states, entry, Duplicate() | Refused(code="UnknownStatus")) if not view.enabled:
            after = frozenset(one for one in states if any(entry.lowest <= stored.highest for stored in one.entries))
            return broken.passing(after) if after and _is_late(state, step) else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """A topic that switches deduplication on is deduplicated only from now on, or from one of these entries on."""
    former = before(state)
    topics = {session.topic for session in sessions_in(former, step) if _may_lack_policy(former, step, session.topic)}
    for topic, view in state.topics.items():
        if view.enabled and view.has_policy and (topic in topics or _is_by_another_process(state.past, topic)):
            yield state.with_topic(topic, _forgetting(view, former.topics[topic]))


def _has_read(state: Example, topic: str) -> bool:
    """Whether an answer since the load of a topic shows that it is deduplicated."""
    for past in pasts_since_load(state, topic):
        match past.step.outcome:
            case Opened(last_sequence_id=int(last)) if past.step.operation.topic == topic and last >= 0:
                return True
            case _ if any(session.topic == topic for session in sessions_in(past.before, past.step)):
                if any(isinstance(answer, Duplicate | Refused) for answer in answers_in(past.step)):
                    return True
            case _:
                pass
    return False


def _is_late(state: Example, step: Step) -> bool:
    return any(_may_lack_policy(state, step, session.topic) for session in sessions_in(state, step))


def _may_lack_policy(state: Example, step: Step, topic: str) -> bool:
    """Whether the broker may not have read the policy of a topic that it loaded."""
    view = state.topics.get(topic)
    reload = next((past for past in state.trace if is_reloaded_by(past, topic)), None)
    is_late = _is_by_another_process(reload, topic) and may_recover(state, step, topic)
    return view is not None and view.has_policy and is_late


def _is_by_another_process(past: Past | None, topic: str) -> bool:
    """Whether another process loaded the topic in a step."""
    return past is not None and is_reloaded_by(past, topic) and not isinstance(past.step.operation, Unload)


def _forgetting(view: TopicView, former: TopicView) -> TopicView:
    """The topic if what was stored before a step does not count, nor perhaps what was stored in it."""
    states = {
        name: states.union(
            *(_counting_from(one, min(len(was.entries) for was in former.state(name))) for one in states)
        )
        for name, states in view.states.items()
    }
    return replace(view, states=states)


def _counting_from(state: ProducerState, first: int) -> Iterator[ProducerState]:
    for since in range(first, 1 + len(state.entries)):
        after = replace(state, since=since, failed=False, is_recovered=False)
        yield replace(after, pushed=after.written, persisted=min(state.persisted, after.written))
