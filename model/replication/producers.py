"""Document 000 where several clusters have a topic: each cluster deduplicates what its own producers send.

A cluster counts replicated messages under the names of their producers, and those of catch-ups besides. So a snapshot
may leave out any producer, and a recovered topic may have forgotten it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from model.cluster_events import LinkHealed
from model.cluster_operations import LoseCluster, RecoverCluster
from model.deduplication import topic_observer
from model.deduplication.producer_state import Circumstances
from model.deduplication.topic_observer import TopicView
from model.events import Created, Opened, Sent, Unknown
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, CreateTopic, Kill, OpenProducer, Restart, Send, Unload
from model.replication.tracked import ClusterProducer, Replication
from model.vocabulary import Outcome

NO_ROOM = 0
"""How many producers a snapshot certainly holds."""

Judged = Allowed[Replication] | Broken


def judge(state: Replication, operation: AnyOperation, outcome: Outcome) -> Judged:
    """What an operation with its outcome leaves possible of what each cluster knows of its producers."""
    match operation:
        case CreateTopic(topic) if isinstance(outcome, Created) and outcome.replication is not None:
            view = TopicView(enabled=outcome.deduplication, snapshot_room=NO_ROOM)
            clusters = outcome.replication.clusters
            return Allowed(replace(state, views={**state.views, **{(topic, label): view for label in clusters}}))
        case OpenProducer(topic=topic, producer=name, cluster=str(cluster)) if isinstance(outcome, Opened):
            view = state.views[topic, cluster]
            return _judged(state, topic, cluster, topic_observer.opened(view, name, outcome.last_sequence_id))
        case Send():
            return _sent(state, state.producers[operation.session], operation, outcome)
        case Unload(topic, cluster=str(cluster)):
            return Allowed(_recovered(state, [(topic, cluster)]))
        case Restart(cluster=str(cluster)) | Kill(cluster=str(cluster)) | LoseCluster(cluster, how="kill"):
            return Allowed(_recovered(state, [at for at in state.views if at[1] == cluster]))
        case RecoverCluster(cluster, is_empty=True) if isinstance(outcome, LinkHealed):
            reloaded = list(state.views) if operation.is_reached_early else []
            return Allowed(_forgotten(_recovered(state, reloaded), cluster))
        case _:
            return Allowed(state)


def _sent(state: Replication, producer: ClusterProducer, operation: Send, outcome: Outcome) -> Judged:
    view = state.views[producer.topic, producer.cluster]
    unanswered = tuple(Unknown("the send has no answers") for _ in operation.entries)
    answers = outcome.answers if isinstance(outcome, Sent) else unanswered
    around, behind = Circumstances(may_fail=True), view.last_position
    judged = topic_observer.sent(view, producer.name, operation.entries, answers, around, confirmed_before=behind)
    return _judged(state, producer.topic, producer.cluster, judged)


def _judged(state: Replication, topic: str, cluster: str, judged: Allowed[TopicView] | Broken) -> Judged:
    return judged.then(lambda after: Allowed(replace(state, views={**state.views, (topic, cluster): after})))


def _forgotten(state: Replication, cluster: str) -> Replication:
    """A cluster has lost its data, and knows no producer."""
    new = {
        at: TopicView(enabled=view.enabled, snapshot_room=NO_ROOM)
        for at, view in state.views.items()
        if at[1] == cluster
    }
    return replace(state, views={**state.views, **new})


def _recovered(state: Replication, places: Iterable[tuple[str, str]]) -> Replication:
    recovered = {at: topic_observer.unloaded(state.views[at]).state for at in places if at in state.views}
    return replace(state, views={**state.views, **recovered})
