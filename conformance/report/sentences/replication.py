"""Document 001 in words: operations on clusters, and their outcomes."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.consumption import asked_of_cursor
from conformance.report.sentences.lists import count, joined
from conformance.report.sentences.participants import SUITE
from model.cluster_events import (
    CaughtUp,
    ClusterCursor,
    ClusterRead,
    ClustersRead,
    CursorAdministered,
    Lagging,
    LinkCut,
    LinkHealed,
    ReplicationOutcome,
    ReplicationSettings,
    ReplicatorsClosed,
    ReplicatorStalled,
)
from model.cluster_operations import (
    AdministerAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    CatchUp,
    CutLink,
    HealLink,
    HoldLink,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
    ReleaseLink,
    ReplicationOperation,
    SetLink,
    SlowLink,
)


def action(operation: ReplicationOperation) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case AwaitTimedOut(cluster):
            return cluster, f"cluster {cluster}", "gives up a snapshot"
        case AwaitMessage(cluster, topic, message):
            return cluster, f"cluster {cluster}", f"receives {message} of topic {topic}"
        case AwaitAnswered(cluster, topic, by):
            answers = joined([f"{label}'s" for label in by])
            return (
                cluster,
                f"cluster {cluster}",
                f"receives snapshot responses for topic {topic}, {answers}, or gives up",
            )
        case AwaitIdle(cluster, topic):
            return cluster, f"cluster {cluster}", f"closes its replicators of topic {topic}, which is idle there"
        case SetLink(source, target, topic, on):
            does = "replicates" if on else "no longer replicates"
            return source, f"cluster {source}", f"{does} topic {topic} to cluster {target}, by a policy"
        case AdministerAt(cluster, asked):
            return SUITE, "the suite", f"{asked_of_cursor(asked)} at cluster {cluster}"
        case LoseCluster(cluster, how=how):
            return cluster, f"cluster {cluster}", "is killed, and stays so" if how == "kill" else "is frozen"
        case RecoverCluster(cluster, is_empty, is_reached_early):
            early = ", and the others reach it before its namespaces exist" if is_reached_early else ""
            return cluster, f"cluster {cluster}", f"comes back empty{early}" if is_empty else "runs again on its data"
        case CutLink() | HealLink() | HoldLink() | SlowLink() | ReleaseLink() | CatchUp() | ReadClusters():
            return SUITE, "the suite", _action_of_suite(operation)
        case _:
            assert_never(operation)


def _action_of_suite(
    operation: CutLink | HealLink | HoldLink | SlowLink | ReleaseLink | CatchUp | ReadClusters,
) -> str:
    match operation:
        case CutLink(source, target):
            return f"cuts the link from cluster {source} to cluster {target}"
        case HealLink(source, target):
            return f"heals the link from cluster {source} to cluster {target}"
        case HoldLink(source, target, what):
            return f"blocks {what} on the link from cluster {source} to cluster {target}"
        case SlowLink(source, target, delay_ms):
            return f"delays the link from cluster {source} to cluster {target} by {delay_ms} ms"
        case ReleaseLink(source, target):
            return f"releases what is blocked on the link from cluster {source} to cluster {target}"
        case CatchUp(consumer, lag=lag):
            acked = f"everything, at first all but the last {lag}," if lag else "everything"
            return f"heals all links, and publishes and has {consumer} acknowledge {acked} until the others catch up"
        case ReadClusters(topic):
            return f"reads the log and the subscriptions of topic {topic} in every cluster"
        case _:
            assert_never(operation)


def outcome_in_words(outcome: ReplicationOutcome) -> str:
    """The outcome of an operation of document 001."""
    match outcome:
        case LinkHealed(unconnected=(_, *_) as clusters):
            return f"the replicators of {joined(clusters)} do not connect to it until the topic is reloaded"
        case LinkCut() | LinkHealed() | ReplicatorsClosed():
            return ""
        case CaughtUp(periods, messages, lagged):
            caught = f"they did within {periods} snapshot periods and {count(len(messages), 'message', 'messages')}"
            return caught if lagged is None else f"at first {outcome_in_words(lagged)}; then {caught}"
        case Lagging(cluster, mark_delete, periods):
            return f"after {periods} snapshot periods cluster {cluster} is still at {mark_delete}"
        case CursorAdministered(before, after):
            return f"{_at(before)} before, {_at(after)} after"
        case ReplicatorStalled(source, target, stalled_s, messages):
            left = joined(list(messages)) or "markers"
            return (
                f"the replicator of {source} to {target} was connected, but stalled for {stalled_s:.0f} s before {left}"
            )
        case ClustersRead(clusters):
            return "; ".join(f"{label}: {_in_words(read)}" for label, read in clusters.items())
        case _:
            assert_never(outcome)


def settings_in_words(settings: ReplicationSettings) -> str:
    """The clusters of a topic, and the period of their snapshots."""
    return f"it is in clusters {joined(list(settings.clusters))}, with a snapshot every {settings.period_ms} ms at most"


def _at(cursor: ClusterCursor | None) -> str:
    return "missing" if cursor is None else f"at {cursor.mark_delete}"


def _in_words(read: ClusterRead) -> str:
    messages = [entry.message for entry in read.entries if entry.message is not None]
    markers = count(sum(entry.marker is not None for entry in read.entries), "marker", "markers")
    cursors = [f"{one.subscription} at {one.mark_delete}" for one in read.cursors]
    return f"{joined(messages) or 'no messages'}, {markers}" + "".join(f", {one}" for one in cursors)
