from __future__ import annotations

from model.cluster_events import ReplicatorStalled
from model.cluster_operations import HOME, CatchUp, ReadClusters
from model.deviation import Deviation, Shadow
from model.deviations.clusters import full_chunks, is_interrupted, nearly_too_large, was_cut_from_home
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import ReadLog
from model.subscription_operations import ReceiveAll

ENTRY = Deviation(
    name="replicator-stuck-on-too-large-message",
    aliases=("stopped-by-too-large",),
    rule="REPL-01",
    statement="If a replicator has a message of nearly maxMessageSize to send when its link heals, it is connected and sends nothing more, messages or markers, until the topic is reloaded. The broker logs nothing; the backlog grows.",
    cause="A disconnected replicator of these releases continues to pass what it reads to its producer. After the reconnect ProducerImpl.recoverProcessOpSendMsgFrom finds the message larger than maxMessageSize (isMessageSizeExceeded) and fails it. The replicator acknowledges it (too-large-to-replicate), but the producer keeps it in its queue (read in the bytecode of 3.3.6). 4.0.8 has the same lines, and its replicators passed such a message in three of three plays. apache/pulsar#26002 is another way to the same state.",
    upstream=("apache/pulsar#26002",),
    side="broker",
    releases=(">=2.11.0,<=3.3.6",),
    seen=("3.3.6", "2.11.0"),
    gone=("4.0.8",),
    occurrence="On 3.3.6 in 3 of 3 plays, on 4.0.8 in 0 of 3.",
    shadow=Shadow(
        name="test_a_replicator_is_stuck_on_a_large_message_only_after_it_reconnects",
        by="small history",
        statement="A replicator that is stuck on a large message without a reconnect since its topic was loaded is found.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case ((ReadLog(topic) | ReceiveAll(topic)), ReplicatorStalled(source, _, messages=[first, *_])):
            is_reconnected = source == HOME and was_cut_from_home(state, topic)
            is_stuck = is_reconnected and first in full_chunks(state, topic)
        case ((ReadClusters() | CatchUp()), ReplicatorStalled(source, target, messages=[first, *_])):
            topic = _topic_of(state, step)
            is_stuck = is_interrupted(state, topic, (source, target)) and first in nearly_too_large(state, topic)
        case _:
            return None
    return broken.passing() if is_stuck else None


def _topic_of(state: Example, step: Step) -> str:
    match step.operation:
        case CatchUp(consumer):
            return state.replication.consumers[consumer].topic
        case _:
            return step.operation.topic or ""
