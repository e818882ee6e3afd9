"""What was found when the clusters of a topic were read, and what had happened to it there, for the deviations of
replication."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache

from model.cluster_events import LinkCut, LinkHealed, SubscriptionUpdated
from model.cluster_operations import AWAY, HOME, CutLink, HealLink, RecoverCluster
from model.deviation import Deviation
from model.deviations.facts import is_reloaded_by
from model.events import Created
from model.example.remote import NotAsPublished, Published
from model.example.state import Example, Judgement, Past
from model.judgement import Allowed, Broken
from model.operations import CreateTopic, Kill, ReadLog, Restart, Send, Unload
from model.payloads import LIMIT_BYTES
from model.replication.evidence import Finding, Findings, Missed
from model.replication.logs import Log, Logs
from model.replication.rounds import Complete, complete
from model.replication.tracked import REPLICATORS_ADD_BYTES, Link
from model.subscription_operations import ReceiveAll

# ------------------------------------------------------------------------------------------------------------ findings


def explaining(
    entry: Deviation,
    broken: Broken,
    is_explained: Callable[[Findings, object], bool] | None = None,
    *,
    missed: Callable[[Findings, str, str], Set[str]] | None = None,
) -> Judgement | None:
    """What is left of a violation if a deviation explains its first finding: it may explain others, too.

    ``is_explained``: by what a finding is about. ``missed``: the messages that it may acknowledge in a cluster for a
    subscription without a consumer.
    """
    found = broken.evidence
    if not isinstance(found, Findings):
        return None

    @cache
    def missed_in(cluster: str, subscription: str) -> Set[str]:
        return frozenset() if missed is None else missed(found, cluster, subscription)

    def is_its_own(one: Finding) -> bool:
        if isinstance(one.about, Missed):
            return one.about.message in missed_in(one.about.cluster, one.about.subscription)
        return is_explained is not None and is_explained(found, one.about)

    if not is_its_own(found.every[0]):
        return None
    explained = frozenset(one for one in found.every if is_its_own(one))
    return Allowed(None, counted=frozenset({entry.name})).then(lambda _: broken.passing(explained))


def lost_from_home(broken: Broken, is_lost: Callable[[Published], bool]) -> Judgement | None:
    """What is left of a violation if these entries of home are lost on their way to the other cluster."""
    match broken.evidence:
        case NotAsPublished(link=(source, _), published=published) if source == HOME:
            judged = broken.passing(frozenset(one.position for one in published if is_lost(one)))
            return None if judged == broken else judged
        case _:
            return None


def passed_without_having(
    logs: Logs, subscription: str, lacking: Mapping[str, Set[str]], *, since_ms: float = -math.inf
) -> frozenset[str]:
    """The messages that an update acknowledged in some cluster although its source does not have them.

    ``lacking``: by cluster, the messages that it does not have for a known reason, from ``since_ms`` on (since 1970).
    Updates of the other clusters then include them, too. An update may be in another cluster's log only: that of its
    source may have been read before.
    """
    found: set[str] = set()
    for entry in (entry for log in logs.values() for entry in log.entries):
        update = entry.marker
        if entry.published_ms < since_ms:
            continue
        if isinstance(update, SubscriptionUpdated) and update.subscription == subscription:
            for cluster, position in update.positions.items():
                found.update(logs[cluster].up_to(position).intersection(lacking[entry.origin]))
    return frozenset(found)


def passed_by_snapshots(logs: Logs, subscription: str, wrong: Callable[[Complete], Set[str]]) -> frozenset[str]:
    """The messages that an update acknowledged in other clusters because its snapshot covers them wrongly.

    ``wrong``: those that a snapshot covers wrongly. The consumer may not have received them.
    """
    markers = (entry.marker for log in logs.values() for entry in log.entries)
    updates = (one for one in markers if isinstance(one, SubscriptionUpdated) and one.subscription == subscription)
    published = {frozenset(one.positions.items()) for one in updates}
    used = (one for one in complete(logs) if frozenset(one.taken.positions.items()) in published)
    return frozenset[str]().union(*(wrong(one) for one in used))


def covered_too_early(logs: Logs, one: Complete) -> frozenset[str]:
    """The messages up to a snapshot's position in another cluster that are not up to its position here."""
    there = (logs[label].up_to(position) for label, position in one.taken.positions.items() if label in logs)
    return frozenset[str]().union(*there) - one.log.up_to(one.taken.local)


# ------------------------------------------------------------------------------------------------------------- reloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """A reload of the topic in a cluster: the messages published anywhere by then, and those that it had confirmed.

    No outcome contains its position. It is before messages that were published later, and after confirmed ones.
    """

    published: frozenset[str]
    confirmed: frozenset[str]

    def may_follow(self, log: Log, index: int) -> bool:
        """Whether it may be after an entry: neither that nor a message before it was published later."""
        return self.published.issuperset(one.message for one in log.entries[: index + 1] if one.message is not None)

    def may_precede(self, log: Log, index: int) -> bool:
        """Whether it may be before an entry: no message that was confirmed by then is after that."""
        return self.confirmed.isdisjoint(one.message for one in log.entries[index + 1 :] if one.message is not None)

    def may_be_at(self, log: Log, index: int) -> bool:
        """Whether an entry may have been stored while the cluster loaded the topic."""
        return self.may_follow(log, index) and self.may_precede(log, index)


def is_reloaded_in(past: Past, topic: str, cluster: str) -> bool:
    """Whether a step reloaded a topic in a cluster."""
    before = past.before.replication.topics.get(topic)
    if before is None:
        return False
    match past.step.operation, past.step.outcome:
        case Unload(name, cluster=label), _:
            return (name, label) == (topic, cluster)
        case ((Restart(cluster=label) | Kill(cluster=label)), _):
            return label == cluster
        case RecoverCluster(label, is_empty=is_empty, is_reached_early=is_reached_early), LinkHealed():
            is_everywhere = is_empty and is_reached_early and label in before.clusters
            return is_everywhere or (label == cluster and before.lost.get(label) == "kill")
        case _:
            return False


def reloads(state: Example, topic: str, cluster: str) -> Iterator[Reload]:
    """The reloads of a topic in a cluster, the last one first."""
    for past in state.trace:
        if is_reloaded_in(past, topic, cluster):
            before = past.before.replication.topics[topic]
            yield Reload(published=before.all_published, confirmed=frozenset(before.published.get(cluster, ())))


def may_be_at_load(state: Example, topic: str, log: Log, index: int) -> bool:
    """Whether an entry may have been stored while its cluster loaded the topic again."""
    return any(one.may_be_at(log, index) for one in reloads(state, topic, log.cluster))


# --------------------------------------------------------------------------------------------------------------- links


def is_interrupted(state: Example, topic: str, link: Link) -> bool:
    """Whether a replicator may have reconnected with messages to send since its cluster loaded the topic.

    It was cut, or its target reloaded the topic.
    """
    source, target = link
    for past in state.trace:
        is_reloaded = is_reloaded_in(past, topic, source)
        if is_reloaded or _is_cut_by(past, topic, link) or is_reloaded_in(past, topic, target):
            return not is_reloaded or _is_cut(past.after, topic, link)
    return False


def _is_cut_by(past: Past, topic: str, link: Link) -> bool:
    return _is_cut(past.after, topic, link) and not _is_cut(past.before, topic, link)


def _is_cut(state: Example, topic: str, link: Link) -> bool:
    one = state.replication.topics.get(topic)
    return one is not None and any(until_ms is None for _, until_ms in one.cut.get(link, ()))


def was_cut_from_home(state: Example, topic: str) -> bool:
    """Whether the link from the home of a topic is cut, or was since home loaded the topic."""
    is_reloaded = False
    for past in state.trace:
        match past.step.operation:
            case CutLink() if is_cut_from_home(past):
                return True
            case HealLink(source, target) if is_reloaded and (source, target) == (HOME, AWAY):
                return False
            case ReadLog(cluster=str()) | ReceiveAll(cluster=str()) if is_reloaded:
                return False  # which healed it before
            case _:
                is_reloaded |= is_reloaded_at_home(past, topic)
    return False


def is_cut_from_home(past: Past) -> bool:
    match past.step.operation, past.step.outcome:
        case CutLink(source, target), LinkCut():
            return (source, target) == (HOME, AWAY)
        case _:
            return False


def is_reloaded_at_home(past: Past, topic: str) -> bool:
    return past.step.operation.cluster is None and is_reloaded_by(past, topic)


def may_resend(state: Example, topic: str) -> bool:
    """Whether a replicator may have sent messages again to a topic with deduplication."""
    one = state.replication.topics[topic]
    each = ((past, link) for past in state.trace for link in one.links)
    return one.deduplication and any(
        _is_cut_by(past, topic, link) or is_reloaded_in(past, topic, link[1]) for past, link in each
    )


def may_resend_from_home(state: Example, topic: str) -> bool:
    """The same of the replicator at the home of a topic."""
    return any(is_cut_from_home(past) or is_reloaded_at_home(past, topic) for past in state.trace)


def is_orphaned(state: Example, topic: str) -> bool:
    """Whether a link had been cut when the topic was unloaded at its source, whose broker was not restarted since."""
    restarted: set[str | None] = set()
    for past in state.trace:
        operation, before = past.step.operation, past.before.replication.topics.get(topic)
        if isinstance(operation, Restart | Kill):
            restarted.add(operation.cluster)
        for source, _ in () if before is None else before.cut:
            if source not in restarted and is_reloaded_in(past, topic, source):
                return True
    return False


def is_new_since_loss(state: Example, topic: str, link: Link) -> bool:
    """Whether the replicator to a lost cluster is a new one: its source reloaded the topic since the last loss."""
    source, target = link
    for past in state.trace:
        if is_reloaded_in(past, topic, source) and _is_lost(past.before, topic, target):
            return True
        if _is_lost(past.after, topic, target) and not _is_lost(past.before, topic, target):
            return False
    return False


def _is_lost(state: Example, topic: str, cluster: str) -> bool:
    one = state.replication.topics.get(topic)
    return one is not None and cluster in one.lost


# ------------------------------------------------------------------------------------------------------------ messages


def nearly_too_large(state: Example, topic: str) -> frozenset[str]:
    """The messages that may leave no room for what a replicator adds (:data:`REPLICATORS_ADD_BYTES`)."""
    found: set[str] = set()
    for past in state.trace:
        match past.step.operation:
            case Send(session, entries):
                producer = past.before.replication.producers.get(session)
                if producer is not None and producer.topic == topic:
                    largest_bytes = past.before.replication.topics[topic].made.largest_bytes
                    for messages in (entry.messages for entry in entries):
                        if max(one.size_bytes for one in messages) > largest_bytes - REPLICATORS_ADD_BYTES > 0:
                            found.update(one.business_id for one in messages)
            case _:
                pass
    return frozenset(found)


def full_chunks(state: Example, topic: str) -> frozenset[str]:
    """The same of a topic with a home: all chunks of pulsar-client but the last have the maximum size that it sees."""
    chunks: set[str] = set()
    for past in state.trace:
        match past.step.operation, past.step.outcome:
            case Send(name, entries), _:
                session = past.before.sessions.get(name)
                if session is not None and session.is_chunking and (session.topic, session.cluster) == (topic, None):
                    chunks.update(one.business_id for entry in entries if entry.is_part for one in entry.messages)
            case CreateTopic(name), Created(limit_bytes=int() as limit_bytes) if name == topic:
                return frozenset(chunks) if limit_bytes - REPLICATORS_ADD_BYTES < LIMIT_BYTES else frozenset()
            case _:
                pass
    return frozenset()


def returned_ms(state: Example, topic: str) -> float:
    """When the first cluster came back without its data, of each the last time (ms since 1970)."""
    emptied = state.replication.topics[topic].emptied
    times_ms = {
        past.step.operation.cluster: past.step.outcome.until_ms
        for past in reversed(list(state.trace))
        if isinstance(past.step.operation, RecoverCluster)
        and past.step.operation.is_empty
        and isinstance(past.step.outcome, LinkHealed)
    }
    return min((times_ms[label] for label in emptied if label in times_ms), default=math.inf)
