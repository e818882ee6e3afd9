"""Document 001 in words: what is done at clusters, and what they have."""

from __future__ import annotations

from typing import assert_never

from conformance.report.lists import count, joined
from conformance.report.participants import SUITE
from model.replication.vocabulary import (
    AcknowledgeAt,
    AcknowledgedAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    Behind,
    CatchUp,
    CaughtUp,
    ClusterRead,
    ClustersRead,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoOperation,
    GeoOutcome,
    HealLink,
    HoldLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    NotPassedOn,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReceivedAt,
    ReleaseLink,
    ReplicatorsClosed,
    RestartCluster,
    SlowLink,
    UnloadAt,
)


def deed(operation: GeoOperation) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case PublishAt(cluster, topic, messages, size_bytes):
            size = f", {size_bytes} bytes each," if size_bytes else ""
            deed = f"publishes {joined(list(messages))}{size} to topic {topic}"
            return cluster, f"a producer at cluster {cluster}", deed
        case JoinAt(consumer, cluster, topic, subscription, is_replicated):
            kind = "replicated " if is_replicated else ""
            where = f"{kind}subscription {subscription} of topic {topic} at cluster {cluster}"
            return consumer, f"consumer {consumer}", f"subscribes to {where}"
        case ReceiveAt(consumer, number):
            return consumer, f"consumer {consumer}", f"receives up to {count(number, 'message', 'messages')}"
        case AcknowledgeAt(consumer, messages, is_cumulative):
            up_to = "everything up to " if is_cumulative else ""
            return consumer, f"consumer {consumer}", f"acknowledges {up_to}{joined(list(messages))}"
        case LeaveAt(consumer):
            return consumer, f"consumer {consumer}", "leaves"
        case AwaitTimedOut(cluster):
            return cluster, f"cluster {cluster}", "gives up a snapshot, and some time goes by"
        case AwaitMessage(cluster, topic, message):
            return cluster, f"cluster {cluster}", f"gets {message} of topic {topic}"
        case AwaitAnswered(cluster, topic, by):
            answers = joined([f"{label}'s" for label in by])
            return (
                cluster,
                f"cluster {cluster}",
                f"gets answers of topic {topic}, {answers}, or gives up",
            )
        case AwaitIdle(cluster, topic):
            return cluster, f"cluster {cluster}", f"closes its replicators of topic {topic}, which is idle there"
        case UnloadAt(cluster, topic):
            return cluster, f"cluster {cluster}", f"unloads topic {topic}"
        case RestartCluster(cluster):
            return cluster, f"cluster {cluster}", "is stopped and started again"
        case KillCluster(cluster):
            return cluster, f"cluster {cluster}", "is killed and started again"
        case (
            CreateReplicatedTopic()
            | CutLink()
            | HealLink()
            | HoldLink()
            | SlowLink()
            | ReleaseLink()
            | CatchUp()
            | ReadClusters()
        ):
            return SUITE, "the suite", _deed_of_suite(operation)
        case _:
            assert_never(operation)


def _deed_of_suite(
    operation: CreateReplicatedTopic | CutLink | HealLink | HoldLink | SlowLink | ReleaseLink | CatchUp | ReadClusters,
) -> str:
    match operation:
        case CreateReplicatedTopic(topic, clusters, is_replicated, deduplication):
            where = f"topic {topic} in {clusters} clusters"
            with_what = ", with deduplication" if deduplication else ""
            return f"creates {where}{with_what}" + ("" if is_replicated else ", not replicated")
        case CutLink(source, target):
            return f"cuts the link from cluster {source} to cluster {target}"
        case HealLink(source, target):
            return f"heals the link from cluster {source} to cluster {target}"
        case HoldLink(source, target, what):
            return f"holds up {what} on the link from cluster {source} to cluster {target}"
        case SlowLink(source, target, delay_ms):
            return f"makes the link from cluster {source} to cluster {target} {delay_ms} ms slower"
        case ReleaseLink(source, target):
            return f"releases what is held up on the link from cluster {source} to cluster {target}"
        case CatchUp(consumer):
            return f"heals all links, and publishes and has {consumer} acknowledge everything until the others catch up"
        case ReadClusters(topic):
            return f"reads back what every cluster has of topic {topic}"
        case _:
            assert_never(operation)


def outcome_in_words(outcome: GeoOutcome) -> str:
    """What came of an operation of document 001."""
    match outcome:
        case GeoCreated(clusters, period_ms):
            return f"it is in clusters {joined(list(clusters))}, with a snapshot every {period_ms} ms at most"
        case LinkCut() | LinkHealed() | ReplicatorsClosed() | AcknowledgedAt():
            return ""
        case Published(positions):
            return "stored at " + joined([str(position) for position in positions])
        case ReceivedAt(messages):
            return joined([f"{one.message} at {one.position}" for one in messages]) or "nothing"
        case CaughtUp(periods, messages):
            return f"they did within {periods} snapshot periods and {count(len(messages), 'message', 'messages')}"
        case Behind(cluster, mark_delete, periods):
            return f"after {periods} snapshot periods cluster {cluster} is still at {mark_delete}"
        case NotPassedOn(source, target, seconds, messages):
            left = joined(list(messages)) or "markers"
            return f"the replicator of {source} to {target} stood still for {seconds:.0f} s, connected, before {left}"
        case ClustersRead(clusters):
            return "; ".join(f"{label}: {_in_words(read)}" for label, read in clusters.items())
        case _:
            assert_never(outcome)


def _in_words(read: ClusterRead) -> str:
    messages = [entry.message for entry in read.entries if entry.message is not None]
    markers = count(sum(entry.marker is not None for entry in read.entries), "marker", "markers")
    cursors = [f"{one.subscription} at {one.mark_delete}" for one in read.cursors]
    return f"{joined(messages) or 'no messages'}, {markers}" + "".join(f", {one}" for one in cursors)
