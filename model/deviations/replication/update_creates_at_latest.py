from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining
from model.example.replica import MissedByFailover
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings
from model.replication.tracked import ReplicatedTopic

ENTRY = Deviation(
    name="update-creates-at-latest",
    aliases=("created-at-latest",),
    rule="REPL-14",
    statement="An update that finds no subscription creates it at the end of the topic. A consumer that fails over misses the messages since the update's position, and later updates acknowledge them in the other clusters.",
    cause="ReplicatedSubscriptionsController.receiveSubscriptionUpdated creates the subscription with InitialPosition.Latest and does not acknowledge up to the update's position (2.11.0). Later releases create it at the earliest position and acknowledge from there. Fixed by apache/pulsar#20767.",
    upstream=("apache/pulsar#20767",),
    side="broker",
    releases=(">=2.10.1,<=3.0.0",),
    seen=("2.11.0", "2.10.1", "3.0.0"),
    gone=("3.3.6", "4.0.8"),
    shadow=Shadow(
        name="test_a_cluster_where_a_consumer_created_the_subscription_skips_only_what_an_update_passes",
        by="small history",
        statement="A skipped message is found in a cluster whose consumer created the subscription, unless an update passes it there.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case MissedByFailover(is_skipped=True):
            return broken.passing()
        case _:
            return explaining(ENTRY, broken, missed=_skipped)


def _skipped(found: Findings, cluster: str, subscription: str) -> frozenset[str]:
    """The messages that a subscription may have skipped in a cluster where an update created it at the topic's end.

    These are the acknowledged messages after the position of the first update. Its later updates include them, so other
    clusters acknowledge them too.
    """
    existed = _created_before_updates(found.topic, subscription)
    skipped: dict[str, frozenset[str]] = {}
    for label, log in found.logs.items():
        cursor, updated = log.cursor(subscription), log.updated_to(subscription)
        if label not in existed and cursor is not None and updated:
            skipped[label] = log.passed(cursor) - log.up_to(updated[0])
    log = found.logs[cluster]
    by_update = log.up_to(max(log.updated_to(subscription), default=None))
    return skipped.get(cluster, frozenset()) | by_update.intersection(frozenset[str]().union(*skipped.values()))


def _created_before_updates(topic: ReplicatedTopic, subscription: str) -> frozenset[str]:
    """The clusters where consumers created a subscription before any cluster could publish an update of it."""
    places = [(cluster, is_replicated) for (name, cluster), is_replicated in topic.own.items() if name == subscription]
    first = next((number for number, (_, is_replicated) in enumerate(places) if is_replicated), len(places))
    return frozenset(cluster for cluster, _ in places[: first + 1])
