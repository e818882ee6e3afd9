from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, may_be_at_load
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import BegunDisconnected, Findings

ENTRY = Deviation(
    name="request-before-topic-policy",
    rule="REPL-03",
    statement="A topic that a policy of its own replicates begins a snapshot when it is loaded, although the link to the other cluster is cut.",
    cause="PersistentTopic.checkReplicatedSubscriptionControllerState sets the time of the last message when the controller starts (seedMaxReadPositionMovedForwardTimestamp), so ReplicatedSubscriptionsController.startNewSnapshot goes on right after a load. It asks whether all of topic.getReplicators() are connected. A policy of the topic adds them later. Read in the bytecode of 5.0.1; 4.0.8, 4.2.4 and 5.0.0-M1 do not set the time.",
    side="broker",
    releases=("==5.0.1",),
    seen=("5.0.1",),
    gone=("4.0.8",),
    occurrence="On 5.0.1 in 6 of 6 reloads by a policy of the topic, in 0 of 6 by one of the namespace; on 4.0.8 in 0 of 4.",
    shadow=Shadow(
        name="test_a_snapshot_begins_before_a_policy_of_the_topic_only_during_the_load",
        by="small history",
        statement="A snapshot begins although the link is cut, of a topic that its namespace replicates, or not during a load.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        match about:
            case BegunDisconnected(cluster, index):
                return found.topic.is_by_topic and may_be_at_load(state, found.name, found.logs[cluster], index)
            case _:
                return False

    return explaining(ENTRY, broken, is_explained)
