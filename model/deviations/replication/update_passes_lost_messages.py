from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, passed_without_having, returned_ms
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings
from model.replication.tracked import ReplicatedTopic

ENTRY = Deviation(
    name="update-passes-lost-messages",
    rule="REPL-14",
    statement="A cluster that lost its data and came back empty publishes updates that acknowledge in the other clusters what it had before the loss. No consumer acknowledged these messages, and after a failover none receives them.",
    cause="After its restart the cluster takes snapshots again, and its markers do not show that its log is a new one. In these snapshots, the positions of the other clusters include messages that it has lost. When its consumer acknowledges later messages, it publishes an update, and ReplicatedSubscriptionsController.receiveSubscriptionUpdated of the others acknowledges cumulatively up to these positions. PIP-33 does not mention the loss of a cluster's data.",
    searched="2026-11-30: `cluster lost its data replicated subscription update`; nothing similar.",
    side="broker",
    releases=(">=2.10.1,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "4.2.4", "2.10.1", "5.0.0-M1", "4.0.6", "5.0.1"),
    occurrence="In 34 of 35 replays on seven releases.",
    shadow=Shadow(
        name="test_an_update_of_an_emptied_cluster_may_pass_only_what_it_lost",
        by="small history",
        statement="A message that came to the cluster after its return is missed, or one from before that an update of before the loss passes.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
        lost = {label: _lost_for(found.topic, label).difference(log.messages()) for label, log in found.logs.items()}
        since_ms = returned_ms(state, found.name)
        return passed_without_having(found.logs, subscription, lost, since_ms=since_ms)

    return explaining(ENTRY, broken, missed=missed)


def _lost_for(topic: ReplicatedTopic, cluster: str) -> frozenset[str]:
    """The messages that a cluster need not have because it, or their own cluster, lost its data."""
    found: set[str] = set()
    for emptied, lost in topic.emptied.items():
        own = topic.maybe_published.union(topic.published.get(emptied, ()))
        found |= lost if emptied == cluster else lost & own
    return frozenset(found)
