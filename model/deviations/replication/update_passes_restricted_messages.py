from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, passed_without_having
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings
from model.replication.tracked import ReplicatedTopic

ENTRY = Deviation(
    name="update-passes-restricted-messages",
    rule="REPL-14",
    statement="An update acknowledges up to a position, including messages that its source does not have: they are restricted to other clusters, or come from a cluster that does not replicate to it. No consumer of the source ever receives them, and a consumer that fails over misses them.",
    cause="A snapshot holds one position for each cluster, and ReplicatedSubscriptionsController.receiveSubscriptionUpdated acknowledges cumulatively up to it. Messages with a list of clusters (replicate_to) that omits the source of the update are before that position, but not in the source's log. So are those of C where A, B and C replicate in a chain, and A publishes the update. PIP-33 does not mention them.",
    searched="2026-11-30: `replicated subscription update restricted replicationClusters lost after failover`; nothing similar.",
    side="broker",
    releases=(">=2.10.1,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "4.2.4", "5.0.0-M1", "2.10.1", "5.0.1"),
    occurrence="Every time, in 13 steps.",
    shadow=Shadow(
        name="test_an_update_may_pass_only_messages_that_its_source_may_not_have",
        by="small history",
        statement="A restricted message that the source of the update has is missed, or one of a cluster that replicates to it.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, missed=_missed)


def _missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
    lacking = {label: _not_for(found.topic, label).difference(log.messages()) for label, log in found.logs.items()}
    return passed_without_having(found.logs, subscription, lacking)


def _not_for(topic: ReplicatedTopic, cluster: str) -> frozenset[str]:
    """The messages that need not be replicated to a cluster: restricted to others, or of a cluster that does not
    replicate to it, or that did so only at times."""
    elsewhere = frozenset(message for message, clusters in topic.restricted.items() if cluster not in clusters)
    sources = set(topic.clusters) - {cluster} if topic.is_replicated else set()
    unlinked = (topic.published.get(one, ()) for one in sources if (one, cluster) not in topic.links)
    unsure = (topic.changed.get((one, cluster), frozenset()) for one in sources if one not in topic.emptied)
    return elsewhere.union(*unlinked, *unsure)
