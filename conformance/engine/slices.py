"""Which topic each operation of a history is about.

Topics do not influence one another (DEDUP-07), so most violations are as well seen without the others. Where that is
not so, a history of one topic does not show the violation, and whoever shortens it keeps the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from model.applications.vocabulary import (
    Consume,
    CrashSource,
    Drain,
    FinishSource,
    ReadDatabase,
    RunReader,
    RunSubscriber,
    StartSource,
)
from model.chunking.vocabulary import (
    AcknowledgeChunked,
    ChunkOperation,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    LeaveChunked,
    LeaveChunking,
    MoveSubscription,
    OpenChunking,
    ReadChunkedBacklog,
    ReadChunkedLog,
    ReadChunkRate,
    SendCrafted,
    SendInterleaved,
    SendPayloads,
    SubscribeChunked,
)
from model.cursors.vocabulary import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
    Terminate,
    Trim,
)
from model.key_shared.vocabulary import Gather, Permit
from model.network import ClearNetworkFaults, InjectNetworkFault, UseProxy
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    Kill,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    Unload,
)
from model.replication.vocabulary import (
    AcknowledgeAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    CatchUp,
    CreateReplicatedTopic,
    CutLink,
    HealLink,
    HoldLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    PublishAt,
    ReadClusters,
    ReceiveAt,
    ReleaseLink,
    RestartCluster,
    SlowLink,
    UnloadAt,
)


def topics_of(operations: Sequence[AnyOperation]) -> list[str | None]:
    """The topic of each operation, which it names or had been named before by who acts; None if it is about none."""
    topics: dict[str, str] = {}
    about = []
    for operation in operations:
        actor, topic = _actor_and_topic(operation)
        if actor is not None and topic is not None:
            topics[actor] = topic
        about.append(topic if topic is not None else topics.get(actor or ""))
    return about


def _actor_and_topic(operation: AnyOperation) -> tuple[str | None, str | None]:
    """Who acts, by a name of the history, and on which topic, where the operation says so."""
    if isinstance(operation, ChunkOperation):
        return _of_chunks(operation)
    match operation:
        case OpenProducer(actor, topic) | StartSource(actor, topic) | Consume(actor, topic):
            return actor, topic
        case RunReader(actor, topic) | RunSubscriber(actor, topic):
            return actor, topic
        case CloseProducer(actor) | CrashProducer(actor) | Send(actor):
            return actor, None
        case FinishSource(actor) | CrashSource(actor) | ReadDatabase(actor):
            return actor, None
        case CreateTopic(topic) | SetDeduplication(topic) | Unload(topic) | SetFailpoint(topic):
            return None, topic
        case ReadSnapshot(topic) | ReadLog(topic) | Drain(topic) | InjectNetworkFault(topic):
            return None, topic
        case Subscribe(actor, topic):
            return actor, topic
        case CloseConsumer(actor) | CrashConsumer(actor) | Receive(actor) | Acknowledge(actor) | AckById(actor):
            return actor, None
        case Nack(actor) | Seek(actor) | CutConnection(actor):
            return actor, None
        case CutDuring(doing):
            return doing.consumer, None
        case CreateSubscription(topic) | DeleteSubscription(topic) | Skip(topic) | SkipAll(topic) | Expire(topic):
            return None, topic
        case (
            ResetCursor(topic) | ReadCursor(topic) | ReadStoredCursor(topic) | AwaitPersisted(topic) | ReceiveAll(topic)
        ):
            return None, topic
        case Permit(actor):
            return actor, None
        case Terminate(topic) | Trim(topic) | NackRepeatedly(topic) | Gather(topic):
            return None, topic
        case CreateReplicatedTopic(topic) | UnloadAt(topic=topic) | ReadClusters(topic) | PublishAt(topic=topic):
            return None, topic
        case AwaitIdle(topic=topic) | AwaitMessage(topic=topic) | AwaitAnswered(topic=topic):
            return None, topic
        case JoinAt(actor, topic=topic):
            return actor, topic
        case ReceiveAt(actor) | AcknowledgeAt(actor) | LeaveAt(actor) | CatchUp(actor):
            return actor, None
        case (
            CutLink()
            | HealLink()
            | HoldLink()
            | SlowLink()
            | ReleaseLink()
            | AwaitTimedOut()
            | RestartCluster()
            | KillCluster()
        ):
            return None, None
        case Restart() | Kill() | ClearFailpoints() | UseProxy() | ClearNetworkFaults():
            return None, None
        case _:
            assert_never(operation)


def _of_chunks(operation: ChunkOperation) -> tuple[str | None, str | None]:
    match operation:
        case OpenChunking(actor, topic) | SubscribeChunked(actor, topic):
            return actor, topic
        case SendPayloads(actor) | SendInterleaved(actor) | SendCrafted(actor) | LeaveChunking(actor):
            return actor, None
        case AcknowledgeChunked(actor) | GiveBack(actor) | LeaveChunked(actor):
            return actor, None
        case CreateChunkedTopic(topic) | GatherChunked(topic) | MoveSubscription(topic) | ReadChunkedLog(topic):
            return None, topic
        case ReadChunkedBacklog(topic) | ReadChunkRate(topic):
            return None, topic
        case _:
            assert_never(operation)
