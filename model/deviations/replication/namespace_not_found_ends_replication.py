from __future__ import annotations

from model.cluster_events import LinkHealed
from model.cluster_operations import RecoverCluster
from model.deviation import Deviation, Shadow
from model.deviations.clusters import is_new_since_loss
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="namespace-not-found-ends-replication",
    rule="REPL-01",
    statement="A replicator that was connected to a cluster, and reaches it again without the topic's namespace, gives up. Once the namespace exists there, nothing is replicated to it until the topic is reloaded.",
    cause="A cluster lost its data. The producer of a replicator reconnects to it, and the look-up of the topic is answered with TopicNotFound (Namespace not found). ProducerImpl of the Java client does not retry this error and closes, and the replicator does not start another producer (seen on the wire and in the broker's log of 4.0.8; the code was not traced). A replicator of a topic that was reloaded while the cluster was away tries again until it connects.",
    searched="2026-11-30: `replicator remote namespace not found not retried`; nearest is apache/pulsar#25097, where replication stops for reasons that are not known.",
    side="broker",
    releases=(">=4.0.6,<=5.0.1",),
    seen=("4.0.8", "4.0.6", "4.2.4", "5.0.0-M1", "5.0.1"),
    gone=("4.0.4", "3.3.6", "3.0.7", "2.11.0", "2.10.1"),
    occurrence="In 3 of 3 replays on each of these releases.",
    shadow=Shadow(
        name="test_a_replicator_may_give_up_only_a_cluster_that_it_reached_without_the_namespace",
        by="small history",
        statement="A replicator does not connect to a recovered cluster whose namespaces existed all the while.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The others' replicators were connected before, and reached the cluster before it had the namespace."""
    match step.operation, broken.evidence:
        case RecoverCluster(cluster, is_reached_early=True), LinkHealed(unconnected=unconnected):
            links = [(source, cluster) for source in unconnected]
            is_new = any(is_new_since_loss(state, name, link) for name in state.replication.topics for link in links)
            return None if is_new else broken.passing()
        case _:
            return None
