"""The reference: one topic in one cluster, with its log, its subscriptions, its replicators and its snapshots.

A cluster is a value. Each function takes one and what happens to it, and answers with the cluster after it. When things
happen is the caller's to choose: what a replicator does next (:mod:`model.replication.replicators`), whether a timer
runs out, what consumers acknowledge, and what a crash leaves.

Mark-delete that advances may publish an update, whoever moved it: a consumer, a marker that is read behind what is
acknowledged, an update from another cluster.

What the document leaves open is settled here so that its promises hold, each with a variant that shows what breaks
otherwise (:mod:`model.replication.variants`):

- An answer counts for the round that it was asked in (:mod:`model.replication.snapshots`).
- A missing subscription is created at the beginning, and then acknowledged up to its position.
- A topic that is loaded again caches the snapshots among what is acknowledged behind mark-delete: its dispatcher will
  not read them any more.
- A subscription that is not replicated here is not moved by another cluster's of the same name.

Not here: individual acknowledgments between clusters (the document has none), clusters that join or leave, entries that
fail to be written.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from model.replication import snapshots
from model.replication import subscription as cursors
from model.replication.entries import Entry, Log, Marker, Message, Positions, Request, Response, Snapshot, Update
from model.replication.snapshots import Builder
from model.replication.subscription import Subscription
from model.replication.variants import DOCUMENT, ReplicationVariant
from model.rules.catalogue import carries


class LinkState(enum.Enum):
    """What a replicator can do: it reads always, and sends while it is connected."""

    CONNECTED = "connected"
    CLOSED = "closed, for there was nothing to send"
    CUT = "cut"


class Link(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A replicator: the cluster that it sends to, and the position behind the last entry that it dealt with."""

    remote: str
    next: int = 0
    state: LinkState = LinkState.CONNECTED


class Cluster(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One topic in one cluster.

    ``building`` are the snapshots that are being made, ``begun`` is how many ever were; ``last_began`` is where the
    last one that was completed began. ``takes_part`` is whether the topic makes snapshots. A subscription caches at
    most ``cached`` of them.
    """

    name: str
    variant: ReplicationVariant = DOCUMENT
    cached: int = 10
    log: Log = ()
    subscriptions: tuple[Subscription, ...] = ()
    links: tuple[Link, ...] = ()
    building: tuple[Builder, ...] = ()
    begun: int = 0
    last_began: int = 0
    takes_part: bool = False

    def subscription(self, name: str) -> Subscription | None:
        """The subscription of this name, if there is one."""
        return next((one for one in self.subscriptions if one.name == name), None)

    def link(self, remote: str) -> Link:
        """The replicator to another cluster; KeyError when there is none."""
        found = next((one for one in self.links if one.remote == remote), None)
        if found is None:
            raise KeyError(f"{self.name} has no replicator to {remote}")
        return found

    @property
    def last(self) -> int:
        """The position of the last entry; -1 in an empty log."""
        return len(self.log) - 1


def new_cluster(
    name: str, remotes: Collection[str], *, cached: int = 10, variant: ReplicationVariant = DOCUMENT
) -> Cluster:
    """An empty topic, with a connected replicator to each of the other clusters."""
    links = tuple(Link(remote=remote) for remote in sorted(remotes))
    return Cluster(name=name, cached=cached, variant=variant, links=links)


def with_link(cluster: Cluster, link: Link) -> Cluster:
    """The cluster with this replicator instead of the one to the same cluster."""
    return replace(cluster, links=tuple(link if one.remote == link.remote else one for one in cluster.links))


def publish(cluster: Cluster) -> Cluster:
    """A message is published here; replicators that were closed are opened for it."""
    number = 1 + sum(entry.is_message and entry.origin == cluster.name for entry in cluster.log)
    return _opened(_written(cluster, Message(cluster.name, number)), {link.remote for link in cluster.links})


@carries("REPL-18")
def subscribe(cluster: Cluster, name: str, *, replicated: bool) -> Cluster:
    """A subscription at the beginning of the topic; if it is replicated, the topic makes snapshots from now on."""
    subscription = Subscription(name=name, replicated=replicated)
    subscriptions = (*cluster.subscriptions, subscription)
    return replace(cluster, subscriptions=subscriptions, takes_part=cluster.takes_part or replicated)


@carries("REPL-02", "REPL-03", "REPL-18")
def may_begin(cluster: Cluster) -> bool:
    """Whether a snapshot begins when it is time to.

    Only where the topic takes part (REPL-18), when a message came since the last completed one began (REPL-02), and
    while all replicators are connected (REPL-03).
    """
    variant = cluster.variant
    has_news = any(entry.is_message for entry in cluster.log[cluster.last_began :])
    is_connected = all(link.state is LinkState.CONNECTED for link in cluster.links)
    return (
        (cluster.takes_part or variant.began_for_nobody)
        and (has_news or variant.began_without_news)
        and (is_connected or variant.began_while_cut)
    )


@carries("REPL-04")
def begin(cluster: Cluster) -> Cluster:
    """A snapshot begins: all other clusters are asked how far they are (REPL-04)."""
    name = f"{cluster.name}#{cluster.begun + 1}"
    remotes = tuple(link.remote for link in cluster.links)
    builder = snapshots.new_builder(name, began=len(cluster.log), remotes=remotes)
    return replace(
        _written(cluster, Request(name, builder.round)),
        building=(*cluster.building, builder),
        begun=cluster.begun + 1,
    )


@carries("REPL-08")
def give_up(cluster: Cluster, name: str) -> Cluster:
    """A snapshot has taken too long, and is dropped (REPL-08)."""
    if cluster.variant.never_timed_out:
        return cluster
    return replace(cluster, building=tuple(one for one in cluster.building if one.name != name))


@carries("REPL-04", "REPL-17")
def answer(cluster: Cluster, request: Request, *, asked_by: str) -> Cluster:
    """A request from another cluster is answered with the last position here (REPL-04).

    The answer is written to the log, so that its own position is higher, and comes after all that is before it. A
    replicator that is closed is opened to send it (REPL-17).
    """
    position = cluster.last + (2 if cluster.variant.position_too_far else 0)
    after = _written(cluster, Response(request.snapshot, request.round, asked_by, position))
    return after if cluster.variant.closed_not_opened else _opened(after, {asked_by})


@carries("REPL-07", "REPL-08", "REPL-09")
def receive_response(cluster: Cluster, response: Response, *, answerer: str, stored_at: int) -> Cluster:
    """An answer came, stored at this position: more is waited for, a second round begins, or the snapshot is written.

    Answers for snapshots that are no longer being made are ignored (REPL-08).
    """
    builder = _builder(cluster, response.snapshot)
    if builder is None:
        return cluster
    after = snapshots.answered(builder, answerer, response, stored_at=stored_at, variant=cluster.variant)
    if isinstance(after, Builder):
        building = tuple(after if one is builder else one for one in cluster.building)
        waiting = replace(cluster, building=building)
        return _written(waiting, Request(after.name, after.round)) if after.round != builder.round else waiting
    snapshot = replace(after, local=len(cluster.log)) if cluster.variant.local_too_late else after
    building = tuple(one for one in cluster.building if one is not builder)
    return _written(replace(cluster, building=building, last_began=builder.began), snapshot)


def _builder(cluster: Cluster, name: str) -> Builder | None:
    found = next((one for one in cluster.building if one.name == name), None)
    if found is None and cluster.building and cluster.variant.late_answer_accepted:
        return cluster.building[0]
    return found


@carries("REPL-13", "REPL-14", "REPL-15", "REPL-18")
def update(cluster: Cluster, change: Update) -> Cluster:
    """An update from another cluster: the subscription is acknowledged up to the position of this one (REPL-13).

    Where it is missing it is created, replicated. One that is not replicated here stays as it is (REPL-18).
    """
    variant = cluster.variant
    position = _position_for(cluster, change.positions)
    if position is None:
        return cluster
    subscription = cluster.subscription(change.subscription)
    if subscription is None:
        if variant.missing_not_created:
            return cluster
        cluster = subscribe(cluster, change.subscription, replicated=not variant.created_unreplicated)
        subscription = cluster.subscriptions[-1]
        position = cluster.last if variant.update_creates_at_latest else position
    elif not (subscription.replicated or variant.update_of_unreplicated_subscription):
        return cluster
    return _moved(cluster, cursors.acknowledge_to(subscription, cluster.last if variant.all_there else position))


def _position_for(cluster: Cluster, positions: Positions) -> int | None:
    if cluster.variant.wrong_cluster:
        return next((position for name, position in positions if name != cluster.name), None)
    return dict(positions).get(cluster.name)


@carries("REPL-10", "REPL-11")
def read(cluster: Cluster, name: str) -> Cluster:
    """The dispatcher of a subscription reads its next entry: a message is its consumer's, a marker is acknowledged.

    No marker is delivered, and none holds up mark-delete (REPL-10). The snapshots among them are cached (REPL-11).
    """
    subscription = cluster.subscription(name)
    if subscription is None or not subscription.connected or subscription.read > cluster.last:
        raise ValueError(f"there is nothing to read for {name} in {cluster.name}")
    position, item = subscription.read, cluster.log[subscription.read].item
    after = replace(subscription, read=position + 1)
    if isinstance(item, Message):
        return _with(cluster, after)
    is_new = position not in subscription.individual
    caches = subscription.replicated or cluster.variant.unreplicated_published
    if isinstance(item, Snapshot) and caches and is_new:
        cache = snapshots.cached(after.cache, item, limit=cluster.cached, variant=cluster.variant)
        after = replace(after, cache=cache)
    if cluster.variant.markers_held:
        return _with(cluster, after)
    return _moved(cluster, cursors.acknowledge(after, position), before=subscription)


@carries("REPL-12")
def acknowledge(cluster: Cluster, name: str, position: int, *, cumulative: bool = False) -> Cluster:
    """A consumer acknowledges an entry, or everything up to it; an update may be published (REPL-12)."""
    subscription = cluster.subscription(name)
    if subscription is None or subscription.is_acknowledged(position):
        raise ValueError(f"nothing is to be acknowledged for {name} at {position} in {cluster.name}")
    if cumulative:
        return _moved(cluster, cursors.acknowledge_to(subscription, position))
    return _moved(cluster, cursors.acknowledge(subscription, position), acknowledged=position)


@carries("REPL-12", "REPL-18")
def _moved(
    cluster: Cluster, after: Subscription, *, before: Subscription | None = None, acknowledged: int | None = None
) -> Cluster:
    """The cluster with a subscription that may have advanced: then the last snapshot that it passed is published.

    Acks that do not move mark-delete publish nothing (REPL-12), nor do subscriptions that are not replicated (REPL-18).
    """
    variant = cluster.variant
    before = before or cluster.subscription(after.name)
    assert before is not None
    advanced = after.mark_delete
    if variant.individual_publishes and acknowledged is not None:
        advanced = max(advanced, acknowledged)
    publishes = after.replicated or variant.unreplicated_published
    if advanced == before.mark_delete or not publishes or variant.update_unpublished:
        return _with(cluster, after)
    cache, snapshot = snapshots.passed(after.cache, advanced, variant=variant)
    with_it = _with(cluster, replace(after, cache=cache))
    return with_it if snapshot is None else _written(with_it, Update(after.name, snapshot.positions))


def connect(cluster: Cluster, name: str) -> Cluster:
    """A consumer connects to a subscription; ValueError when there is none."""
    subscription = cluster.subscription(name)
    if subscription is None:
        raise ValueError(f"there is no subscription {name} in {cluster.name}")
    return _with(cluster, cursors.connect(subscription))


def disconnect(cluster: Cluster, name: str) -> Cluster:
    """The consumer of a subscription disconnects; ValueError when there is none."""
    subscription = cluster.subscription(name)
    if subscription is None:
        raise ValueError(f"there is no subscription {name} in {cluster.name}")
    return _with(cluster, cursors.disconnect(subscription))


def restart(cluster: Cluster, persisted: Mapping[str, tuple[int, frozenset[int]]], links: Collection[Link]) -> Cluster:
    """The topic is loaded again, after a crash: what is kept is the log, and what was persisted of cursors.

    ``persisted`` is mark-delete and what is acknowledged behind it, by subscription; ``links`` are the replicators,
    each as far as it was persisted. Snapshots that were being made are gone, and consumers come back.
    """
    subscriptions = tuple(_restarted(cluster, one, *persisted[one.name]) for one in cluster.subscriptions)
    return replace(
        cluster,
        subscriptions=subscriptions,
        links=tuple(sorted(links, key=lambda link: link.remote)),
        building=(),
        takes_part=any(one.replicated for one in subscriptions),
    )


@carries("REPL-11")
def _restarted(
    cluster: Cluster, subscription: Subscription, mark_delete: int, individual: frozenset[int]
) -> Subscription:
    """A subscription of a topic that is loaded again; what its dispatcher will not read again is cached at once."""
    cache: snapshots.Cache = ()
    if subscription.replicated and not cluster.variant.snapshot_cache_not_recovered:
        for position in sorted(individual):
            item = cluster.log[position].item
            if isinstance(item, Snapshot):
                cache = snapshots.cached(cache, item, limit=cluster.cached, variant=cluster.variant)
    return replace(subscription, mark_delete=mark_delete, individual=individual, read=mark_delete + 1, cache=cache)


def receive(cluster: Cluster, entry: Entry) -> Cluster:
    """An entry that was first written in another cluster is stored here."""
    return replace(cluster, log=(*cluster.log, entry))


def _written(cluster: Cluster, item: Message | Marker) -> Cluster:
    return replace(cluster, log=(*cluster.log, Entry(cluster.name, len(cluster.log), item)))


def _with(cluster: Cluster, subscription: Subscription) -> Cluster:
    subscriptions = (subscription if one.name == subscription.name else one for one in cluster.subscriptions)
    return replace(cluster, subscriptions=tuple(subscriptions))


def _opened(cluster: Cluster, remotes: Collection[str]) -> Cluster:
    """The cluster with its closed replicators to these clusters opened; those that are cut stay so."""
    links = (
        replace(link, state=LinkState.CONNECTED) if link.remote in remotes and link.state is LinkState.CLOSED else link
        for link in cluster.links
    )
    return replace(cluster, links=tuple(links))
