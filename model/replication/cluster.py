"""The reference: one topic in one cluster, with its log, its subscriptions, its replicators and its snapshots.

A cluster is a value. Each function takes a cluster and an event, and returns the next cluster. The caller makes all
choices: what a replicator does next (:mod:`model.replication.replicators`), whether a timer expires, what consumers
acknowledge, and what a crash loses.

Any advance of mark-delete may publish an update: by a consumer, by a marker that is read after acknowledged entries, or
by an update from another cluster.

Where the document is silent, this module chooses what its rules require. Each choice has a variant that shows what
breaks otherwise (:mod:`model.replication.variants`):

- A response counts for the round of its request (:mod:`model.replication.snapshots`).
- A missing subscription is created at the beginning of the topic, and then acknowledged up to its position.
- A reloaded topic caches the snapshots that are acknowledged after mark-delete, because its dispatcher will not read
  them again.
- An update from another cluster does not move a subscription that is not replicated here.

Not modelled: individual acks between clusters (the document has none), clusters that join or leave, failed writes.
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
    """The state of a replicator: it always reads, and sends while it is connected."""

    CONNECTED = "connected"
    CLOSED = "closed, for there was nothing to send"
    CUT = "cut"


class Link(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A replicator: its remote cluster, and the position after the last entry that it sent or handled."""

    remote: str
    next: int = 0
    state: LinkState = LinkState.CONNECTED


class Cluster(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One topic in one cluster.

    ``building``: the snapshots in progress. ``begun``: how many ever began. ``last_began``: the position at which the
    last completed one began. ``takes_part``: the topic takes snapshots. ``cached``: the most that a subscription
    caches.
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
        return next((one for one in self.subscriptions if one.name == name), None)

    def link(self, remote: str) -> Link:
        """The replicator to another cluster; KeyError if there is none."""
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
    """An empty topic, with a connected replicator to each other cluster."""
    links = tuple(Link(remote=remote) for remote in sorted(remotes))
    return Cluster(name=name, cached=cached, variant=variant, links=links)


def with_link(cluster: Cluster, link: Link) -> Cluster:
    """The cluster with this replicator instead of the one to the same cluster."""
    return replace(cluster, links=tuple(link if one.remote == link.remote else one for one in cluster.links))


def publish(cluster: Cluster) -> Cluster:
    """A message is published here, which opens closed replicators."""
    number = 1 + sum(entry.is_message and entry.origin == cluster.name for entry in cluster.log)
    return _opened(_written(cluster, Message(cluster.name, number)), {link.remote for link in cluster.links})


@carries("REPL-18")
def subscribe(cluster: Cluster, name: str, *, replicated: bool) -> Cluster:
    """A subscription at the beginning of the topic. If it is replicated, the topic takes snapshots from now on."""
    subscription = Subscription(name=name, replicated=replicated)
    subscriptions = (*cluster.subscriptions, subscription)
    return replace(cluster, subscriptions=subscriptions, takes_part=cluster.takes_part or replicated)


@carries("REPL-02", "REPL-03", "REPL-18")
def may_begin(cluster: Cluster) -> bool:
    """Whether a snapshot begins when its timer expires.

    The topic must take part (REPL-18), have a new message since the last completed one began (REPL-02), and have all
    replicators connected (REPL-03).
    """
    variant = cluster.variant
    has_new_message = any(entry.is_message for entry in cluster.log[cluster.last_began :])
    is_connected = all(link.state is LinkState.CONNECTED for link in cluster.links)
    return (
        (cluster.takes_part or variant.began_for_nobody)
        and (has_new_message or variant.began_without_news)
        and (is_connected or variant.began_while_cut)
    )


@carries("REPL-04")
def begin(cluster: Cluster) -> Cluster:
    """A snapshot begins with a request to all other clusters (REPL-04)."""
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
    """A snapshot times out (REPL-08)."""
    if cluster.variant.never_timed_out:
        return cluster
    return replace(cluster, building=tuple(one for one in cluster.building if one.name != name))


@carries("REPL-04", "REPL-17")
def answer(cluster: Cluster, request: Request, *, asked_by: str) -> Cluster:
    """A request from another cluster is answered with the last position here (REPL-04).

    The response is written to the log, so its own position is higher, and it is replicated after all earlier entries.
    It opens a closed replicator (REPL-17).
    """
    position = cluster.last + (2 if cluster.variant.position_too_far else 0)
    after = _written(cluster, Response(request.snapshot, request.round, asked_by, position))
    return after if cluster.variant.closed_not_opened else _opened(after, {asked_by})


@carries("REPL-07", "REPL-08", "REPL-09")
def receive_response(cluster: Cluster, response: Response, *, answerer: str, stored_at: int) -> Cluster:
    """A response was stored at this position: the snapshot waits for others, begins a second round, or is written.

    Responses for snapshots that are not in progress are ignored (REPL-08).
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
    """An update from another cluster acknowledges the subscription up to this cluster's position (REPL-13).

    It creates a missing subscription as replicated, and does not change one that is not replicated here (REPL-18).
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
    return _changed(cluster, cursors.acknowledge_to(subscription, cluster.last if variant.all_there else position))


def _position_for(cluster: Cluster, positions: Positions) -> int | None:
    if cluster.variant.wrong_cluster:
        return next((position for name, position in positions if name != cluster.name), None)
    return dict(positions).get(cluster.name)


@carries("REPL-10", "REPL-11")
def read(cluster: Cluster, name: str) -> Cluster:
    """The dispatcher of a subscription reads its next entry: it sends a message, and acknowledges a marker.

    No marker is delivered, and none blocks mark-delete (REPL-10). Snapshots are cached (REPL-11).
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
    return _changed(cluster, cursors.acknowledge(after, position), before=subscription)


@carries("REPL-12")
def acknowledge(cluster: Cluster, name: str, position: int, *, cumulative: bool = False) -> Cluster:
    """A consumer acknowledges an entry, or everything up to it, which may publish an update (REPL-12)."""
    subscription = cluster.subscription(name)
    if subscription is None or subscription.is_acknowledged(position):
        raise ValueError(f"nothing is to be acknowledged for {name} at {position} in {cluster.name}")
    if cumulative:
        return _changed(cluster, cursors.acknowledge_to(subscription, position))
    return _changed(cluster, cursors.acknowledge(subscription, position), acknowledged=position)


@carries("REPL-12", "REPL-18")
def _changed(
    cluster: Cluster, after: Subscription, *, before: Subscription | None = None, acknowledged: int | None = None
) -> Cluster:
    """The cluster with a changed subscription. If mark-delete advanced, the last passed snapshot is published.

    Neither an ack without an advance (REPL-12) nor a subscription that is not replicated (REPL-18) publishes an update.
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
    """A consumer connects to a subscription; ValueError if there is none."""
    subscription = cluster.subscription(name)
    if subscription is None:
        raise ValueError(f"there is no subscription {name} in {cluster.name}")
    return _with(cluster, cursors.connect(subscription))


def disconnect(cluster: Cluster, name: str) -> Cluster:
    """The consumer of a subscription disconnects; ValueError if there is none."""
    subscription = cluster.subscription(name)
    if subscription is None:
        raise ValueError(f"there is no subscription {name} in {cluster.name}")
    return _with(cluster, cursors.disconnect(subscription))


def restart(cluster: Cluster, persisted: Mapping[str, tuple[int, frozenset[int]]], links: Collection[Link]) -> Cluster:
    """The topic is reloaded after a crash, with the log and the persisted cursors.

    ``persisted``: mark-delete and the later individual acks, by subscription. ``links``: the replicators with their
    persisted progress. Snapshots in progress are lost, and consumers reconnect.
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
    """A subscription of a reloaded topic. Snapshots that its dispatcher will not read again are cached at once."""
    cache: snapshots.Cache = ()
    if subscription.replicated and not cluster.variant.snapshot_cache_not_recovered:
        for position in sorted(individual):
            item = cluster.log[position].item
            if isinstance(item, Snapshot):
                cache = snapshots.cached(cache, item, limit=cluster.cached, variant=cluster.variant)
    return replace(subscription, mark_delete=mark_delete, individual=individual, read=mark_delete + 1, cache=cache)


def receive(cluster: Cluster, entry: Entry) -> Cluster:
    """A replicated entry is stored here."""
    return replace(cluster, log=(*cluster.log, entry))


def _written(cluster: Cluster, item: Message | Marker) -> Cluster:
    return replace(cluster, log=(*cluster.log, Entry(cluster.name, len(cluster.log), item)))


def _with(cluster: Cluster, subscription: Subscription) -> Cluster:
    subscriptions = (subscription if one.name == subscription.name else one for one in cluster.subscriptions)
    return replace(cluster, subscriptions=tuple(subscriptions))


def _opened(cluster: Cluster, remotes: Collection[str]) -> Cluster:
    """The cluster with its closed replicators to these clusters opened. A cut replicator stays cut."""
    links = (
        replace(link, state=LinkState.CONNECTED) if link.remote in remotes and link.state is LinkState.CLOSED else link
        for link in cluster.links
    )
    return replace(cluster, links=tuple(links))
