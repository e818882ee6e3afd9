"""The end of an example at several clusters: read everything, let the clusters catch up, and read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from model.cluster_operations import CatchUp, HealLink, ReadClusters, RecoverCluster
from model.operations import AnyOperation
from model.replication.tracked import ReplicatedTopic, Replication
from model.subscription_operations import CloseConsumer, Receive, Subscribe

OVER = "over"
"""The prefix of consumers that fail over, if nothing was in flight at the last read."""

LAST = "last"
"""The prefix of the consumer that lets a topic's clusters catch up."""


def winding_up_clusters(state: Callable[[], Replication], name: str) -> Iterator[AnyOperation]:
    """The operations that end a topic, each chosen after the previous one.

    The first read shows whether a cluster was ahead, and the read after the catch-up that none lags. The consumer that
    lets them catch up lags by a message at first (REPL-19). The catch-up needs a replicated subscription. Without one,
    nothing more happens.
    """
    for cluster in state().topics[name].lost:
        yield RecoverCluster(cluster)
    yield ReadClusters(name)
    topic = state().topics[name]
    for (source, target), cuts in topic.cut.items():
        if any(until is None for _, until in cuts):
            yield HealLink(source, target)
    place = _replicated(topic)
    if not topic.is_replicated or place is None:
        return
    subscription, cluster = place
    for consumer, one in list(state().consumers.items()):
        if (one.topic, one.subscription) == (name, subscription):
            yield CloseConsumer(consumer)
    if topic.is_quiet:
        yield from _failing_over(topic, name, subscription, cluster)
    last = f"{LAST}-{name}"
    yield _subscribing(last, name, subscription, cluster)
    yield CatchUp(consumer=last, prefix=_unused(topic, f"{name}-last-"), lag=1)
    yield ReadClusters(name)


def _unused(topic: ReplicatedTopic, prefix: str) -> str:
    """The prefix, or a longer one if messages have it already: a replay ends an example that has ended before."""
    used = sum(1 for message in topic.all_published if message.startswith(prefix))
    return f"{prefix}{used}-" if used else prefix


def _replicated(topic: ReplicatedTopic) -> tuple[str, str] | None:
    """A subscription that a consumer created as replicated, and the cluster, which has kept its data."""
    own = (at for at, is_replicated in topic.own.items() if is_replicated and at[1] not in topic.emptied)
    return next(own, None)


def _failing_over(topic: ReplicatedTopic, name: str, subscription: str, cluster: str) -> Iterator[AnyOperation]:
    """A consumer fails over to each other cluster and receives what is left there, without acks."""
    for there in topic.clusters:
        if there != cluster and topic.own.get((subscription, there), True):
            over = f"{OVER}-{name}-{there}"
            yield _subscribing(over, name, subscription, there)
            yield Receive(over, 100)
            yield CloseConsumer(over)


def _subscribing(consumer: str, topic: str, subscription: str, cluster: str) -> Subscribe:
    return Subscribe(consumer, topic, subscription, kind="Exclusive", cluster=cluster, is_replicated=True)
