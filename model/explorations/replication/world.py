"""The world in which replicated subscriptions are explored: clusters, consumers that fail over, and the next steps.

:mod:`model.replication` has the clusters. This module has the choices that they leave open: when replicators continue,
when snapshots begin and time out, which links are cut, what a crash loses, and what consumers do. The messages that
were *processed*, in any cluster, are recorded by message and not by position.

To have fewer states, consumers are sent all messages at once, and markers other than snapshots are read at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from model.replication import cluster as topic
from model.replication import replicators
from model.replication.cluster import Cluster, Link, LinkState
from model.replication.entries import Entry, Message, Request, Response, Snapshot, Update
from model.replication.replicators import Clusters
from model.replication.subscription import Subscription
from model.replication.variants import DOCUMENT, ReplicationVariant


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the clusters, where messages are published, and how often each step may happen.

    The messages of ``stored`` are in every cluster at first, those of ``messages`` are published, in any order.
    ``snapshots`` names a cluster for each snapshot that may begin. The subscription ``s`` is replicated, with its
    consumer in cluster A at first; ``others`` are more replicated ones, whose consumers stay there; ``plain`` are
    not replicated, each with the cluster of its consumer. Consumers acknowledge one by one and, with
    ``cumulative``, also up to an entry; the consumer of ``s`` fails over to the clusters of ``failovers``, one after
    the other. The links in ``cuts`` may be cut, once each. Those in ``closed`` are closed at first, because nothing was
    sent. The brokers of ``crashes`` may crash once.

    With ``late`` only these links are slow: clusters do everything else at once and in one order, so that
    there are fewer states. The replicators of ``slow`` are also slow to handle markers. ``exact`` checks
    more than the document promises: when all links are idle, a failover redelivers nothing.
    """

    clusters: str = "AB"
    stored: str = ""
    messages: str = ""
    snapshots: str = "A"
    replicated: bool = True
    others: tuple[str, ...] = ()
    plain: tuple[tuple[str, str], ...] = ()
    cumulative: bool = False
    failovers: str = ""
    cuts: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    crashes: str = ""
    timeouts: int = 0
    cached: int = 10
    late: tuple[str, ...] | None = None
    slow: tuple[str, ...] = ()
    exact: bool = False
    variant: ReplicationVariant = DOCUMENT


class RoamingConsumer(Struct, frozen=True, cache_hash=True, gc=False):
    """A consumer of a subscription: its cluster, and the messages that it has processed in any cluster."""

    subscription: str
    cluster: str
    processed: frozenset[Message] = frozenset()
    may_leave: bool = False


class World(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A state of the exploration: the clusters, the consumers, and how often each step may still happen."""

    clusters: Clusters
    consumers: tuple[RoamingConsumer, ...]
    unpublished: str
    snapshots: str
    failovers: str
    cuts: tuple[str, ...]
    crashes: str
    timeouts: int

    def cluster(self, name: str) -> Cluster:
        """The topic in this cluster."""
        return replicators.named(self.clusters, name)


class Step(Struct, frozen=True, gc=False):
    """A step: its kind, its description, its cluster, and the entry that was sent or handled, if any."""

    kind: str
    words: str
    cluster: str = ""
    remote: str = ""
    position: int = -1
    entry: Entry | None = None

    def __str__(self) -> str:
        return self.words


Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""

ANSWERED = frozenset({"is answered", "requests redelivery", "completes"})
"""The kinds of steps in which an answer counts."""


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    makes = bool(setup.snapshots) and setup.replicated
    rounds = makes and len(setup.clusters) > 2
    repeats = bool(setup.cuts or setup.crashes)
    known = any(name == "s" for name, _ in setup.plain)
    conditional = {
        "publishes": bool(setup.messages),
        "replicates": bool(setup.messages),
        "begins": makes,
        "sends": makes,
        "answers": makes,
        "is answered": rounds,
        "requests redelivery": rounds,
        "completes": makes,
        "caches": makes,
        "creates": makes and not known,
        "updates": makes and bool(known or len(setup.snapshots) > 1 or setup.failovers),
        "arrives late": makes and bool(setup.timeouts or repeats),
        "fails over": bool(setup.failovers),
        "cuts": bool(setup.cuts),
        "heals": bool(setup.cuts),
        "gives up": makes and setup.timeouts > 0,
        "crashes": bool(setup.crashes),
    }
    return frozenset({"acknowledges", *(kind for kind, has in conditional.items() if has)})


def initial(setup: Setup) -> World:
    """The subscriptions exist in their consumers' clusters, and the first messages are stored."""
    consumers = [
        RoamingConsumer("s", setup.clusters[0], may_leave=True),
        *(RoamingConsumer(name, "A") for name in setup.others),
    ]
    consumers += [RoamingConsumer(name, where) for name, where in setup.plain]
    clusters = tuple(_first(setup, consumers, name) for name in setup.clusters)
    for name in setup.stored:
        clusters = _replicated(
            replicators.with_cluster(clusters, topic.publish(replicators.named(clusters, name))), name
        )
    world = World(
        clusters=clusters,
        consumers=tuple(consumers),
        unpublished=setup.messages,
        snapshots=setup.snapshots,
        failovers=setup.failovers,
        cuts=setup.cuts,
        crashes=setup.crashes,
        timeouts=setup.timeouts,
    )
    return settled(world)


def _first(setup: Setup, consumers: list[RoamingConsumer], name: str) -> Cluster:
    """A cluster at first: without entries, and with the subscriptions of its consumers."""
    remotes = [other for other in setup.clusters if other != name]
    cluster = topic.new_cluster(name, remotes, cached=setup.cached, variant=setup.variant)
    for number, consumer in enumerate(consumers):
        if consumer.cluster == name:
            replicated = setup.replicated and number <= len(setup.others)
            cluster = topic.subscribe(cluster, consumer.subscription, replicated=replicated)
            cluster = topic.connect(cluster, consumer.subscription)
    for remote in remotes:
        if name + remote in setup.closed:
            cluster = topic.with_link(cluster, Link(remote=remote, state=LinkState.CLOSED))
    return cluster


def _replicated(clusters: Clusters, name: str) -> Clusters:
    """The clusters when the last entry of this one is replicated to all others."""
    cluster = replicators.named(clusters, name)
    for link in cluster.links:
        clusters = replicators.go_on(clusters, name, link.remote, cluster.last)
    return clusters


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step; then consumers are sent all messages."""
    possible = [*of_markers(setup, world)]
    if setup.late is not None and possible:
        del possible[1:]
    else:
        possible += [
            *(found for cluster in world.clusters for found in of_cluster(setup, world, cluster)),
            *(found for consumer in world.consumers for found in of_consumer(setup, world, consumer)),
            *of_links(world),
        ]
    for step, after in possible:
        yield step, settled(after)


def of_markers(setup: Setup, world: World) -> Next:
    """The immediate steps of clusters: replicators handle markers, and send over fast links; snapshots are read."""
    for cluster in world.clusters:
        for link in cluster.links:
            if not _takes_its_time(setup, cluster, link):
                yield from goes_on(world, cluster, link)
    for consumer in world.consumers:
        yield from caches(world, consumer)


def _takes_its_time(setup: Setup, cluster: Cluster, link: Link) -> bool:
    name = cluster.name + link.remote
    return (setup.late is None or name in setup.late) if sends_next(cluster, link) else name in setup.slow


def sends_next(cluster: Cluster, link: Link) -> bool:
    """Whether a replicator has something to send next."""
    position = replicators.next_position(cluster, link)
    return position is not None and replicators.sends(cluster, link, position)


def settled(world: World) -> World:
    """The world with everything read that can be, up to the next snapshot."""
    clusters = world.clusters
    for consumer in world.consumers:
        cluster = replicators.named(clusters, consumer.cluster)
        while (item := to_read(cluster, consumer.subscription)) is not None and not isinstance(item.item, Snapshot):
            cluster = topic.read(cluster, consumer.subscription)
        clusters = replicators.with_cluster(clusters, cluster)
    return replace(world, clusters=clusters)


def to_read(cluster: Cluster, name: str) -> Entry | None:
    """The next entry for a subscription's consumer, if there is one."""
    subscription = cluster.subscription(name)
    if subscription is None or not subscription.connected or subscription.read > cluster.last:
        return None
    return cluster.log[subscription.read]


def of_cluster(setup: Setup, world: World, cluster: Cluster) -> Next:
    """A cluster: a message is published, a snapshot begins or times out, replicators continue, the broker crashes."""
    name = cluster.name
    if name in world.unpublished:
        after = topic.publish(cluster)
        words = f"{after.log[-1].item} is published in {name}, as entry {after.last}"
        yield (
            Step("publishes", words, name, position=after.last),
            replace(_with(world, after), unpublished=world.unpublished.replace(name, "", 1)),
        )
    if name in world.snapshots and topic.may_begin(cluster):
        after = topic.begin(cluster)
        words = f"{name} begins snapshot {after.building[-1].name}: its request is entry {after.last}"
        yield (
            Step("begins", words, name, position=after.last),
            replace(_with(world, after), snapshots=world.snapshots.replace(name, "", 1)),
        )
    if world.timeouts:
        for builder in cluster.building:
            words = f"snapshot {builder.name} of {name} times out"
            after = topic.give_up(cluster, builder.name)
            yield Step("gives up", words, name), replace(_with(world, after), timeouts=world.timeouts - 1)
    for link in cluster.links:
        if _takes_its_time(setup, cluster, link):
            yield from goes_on(world, cluster, link)
    if name in world.crashes:
        yield from crashes(world, cluster)


def goes_on(world: World, cluster: Cluster, link: Link) -> Next:
    """A replicator continues with its next entry, if it can: it handles a marker, or sends."""
    position = replicators.next_position(cluster, link)
    if position is None or replicators.is_stuck(cluster, link, position):
        return
    clusters = replicators.go_on(world.clusters, cluster.name, link.remote, position)
    entry, after = cluster.log[position], replicators.named(clusters, cluster.name)
    sent = replicators.named(clusters, link.remote).last
    if replicators.sends(cluster, link, position):
        kind = "replicates" if entry.is_message else "sends"
        words = f"{in_words(entry)} is replicated from {cluster.name} to {link.remote}, as entry {sent}"
    else:
        kind, words = _handled(cluster, after, entry, position)
    yield Step(kind, words, cluster.name, link.remote, position, entry), replace(world, clusters=clusters)


def _handled(before: Cluster, after: Cluster, entry: Entry, position: int) -> tuple[str, str]:
    """The kind of handling a marker, and its description."""
    name, item = before.name, entry.item
    if isinstance(item, Request):
        written = after.log[len(before.log)].item
        assert isinstance(written, Response)
        last_position = "nothing" if written.position < 0 else f"entry {written.position}"
        return (
            "answers",
            f"{name} responds to {in_words(entry)}: its last is {last_position}; the response is entry {after.last}",
        )
    if isinstance(item, Update):
        existed = before.subscription(item.subscription) is not None
        there = after.subscription(item.subscription)
        if not existed and there is not None:
            words = f"{name} creates {item.subscription}, acknowledged up to entry {there.mark_delete}"
            return "creates", words
        reached = "nothing" if there is None else f"entry {there.mark_delete}"
        return "updates", f"{name} applies {in_words(entry)}: {item.subscription} is acknowledged up to {reached}"
    assert isinstance(item, Response)
    words = f"{name} has {in_words(entry)}, in entry {position}"
    if before.building == after.building:
        return "arrives late", f"{words}, which does not count"
    written_items = [one.item for one in after.log[len(before.log) :]]
    if not written_items:
        return "is answered", words
    if isinstance(snapshot := written_items[0], Snapshot):
        return "completes", f"{words}: {snapshot_in_words(snapshot)} is entry {after.last}"
    return "requests redelivery", f"{words}, and begins the second round in entry {after.last}"


def crashes(world: World, cluster: Cluster) -> Next:
    """The broker crashes: each cursor has one of its former states, and the last entry may be replicated again."""
    kept = {one.name: (one.mark_delete, one.individual) for one in cluster.subscriptions}
    without = {name: (mark_delete, frozenset[int]()) for name, (mark_delete, _) in kept.items()}
    nothing = {one.name: (-1, frozenset[int]()) for one in cluster.subscriptions}
    same, again = cluster.links, tuple(replicators.rewound(cluster, link) for link in cluster.links)
    cursors_in_words = ((kept, "its cursors are kept"), (without, "its cursors have only mark-delete"))
    for persisted, cursors in (*cursors_in_words, (nothing, "its cursors are as at the start")):
        for links_after, sends in ((same, ""), (again, ", and it may replicate its last entry again")):
            after = topic.restart(cluster, persisted, links_after)
            step = Step("crashes", f"the broker of {cluster.name} crashes: {cursors}{sends}", cluster.name)
            yield step, replace(_with(world, after), crashes=world.crashes.replace(cluster.name, "", 1))


def of_consumer(setup: Setup, world: World, consumer: RoamingConsumer) -> Next:
    """A consumer acknowledges its messages, or fails over."""
    name, cluster = consumer.subscription, world.cluster(consumer.cluster)
    subscription = cluster.subscription(name)
    assert subscription is not None
    for position in subscription.unacknowledged:
        for cumulative in (False, True) if setup.cumulative else (False,):
            yield acknowledges(world, consumer, cluster, subscription, position, cumulative=cumulative)
    if world.failovers and consumer.may_leave:
        yield from fails_over(world, consumer)


def caches(world: World, consumer: RoamingConsumer) -> Next:
    """A snapshot is read for a consumer."""
    name, cluster = consumer.subscription, world.cluster(consumer.cluster)
    entry, subscription = to_read(cluster, name), cluster.subscription(name)
    if entry is not None and subscription is not None and isinstance(entry.item, Snapshot):
        after = topic.read(cluster, name)
        words = f"{name} in {cluster.name} reads {snapshot_in_words(entry.item)}{_moved_in_words(cluster, after)}"
        yield Step("caches", words, cluster.name, position=subscription.read), _with(world, after)


def acknowledges(
    world: World,
    consumer: RoamingConsumer,
    cluster: Cluster,
    subscription: Subscription,
    position: int,
    *,
    cumulative: bool,
) -> tuple[Step, World]:
    """A consumer acknowledges an entry, or everything up to it."""
    name = consumer.subscription
    after = topic.acknowledge(cluster, name, position, cumulative=cumulative)
    unacknowledged = [one for one in subscription.unacknowledged if one == position or (cumulative and one < position)]
    items = [item for one in unacknowledged if isinstance(item := cluster.log[one].item, Message)]
    done = replace(consumer, processed=consumer.processed.union(items))
    up_to = "everything up to " if cumulative else ""
    entry = f"{up_to}{in_words(cluster.log[position])}"
    words = f"{name} in {cluster.name} acknowledges {entry}{_moved_in_words(cluster, after)}"
    consumers = tuple(done if one is consumer else one for one in world.consumers)
    step = Step("acknowledges", words, cluster.name, position=position)
    return step, replace(_with(world, after), consumers=consumers)


def _moved_in_words(before: Cluster, after: Cluster) -> str:
    """The update that an advance of mark-delete published, in words."""
    updates = [one for one in after.log[len(before.log) :] if isinstance(one.item, Update)]
    return "".join(f", and publishes {in_words(one)} in entry {one.source}" for one in updates)


def fails_over(world: World, consumer: RoamingConsumer) -> Next:
    """A consumer moves to another cluster, and subscribes there."""
    name, there = consumer.subscription, world.cluster(world.failovers[0])
    left = topic.disconnect(world.cluster(consumer.cluster), name)
    known = there if there.subscription(name) is not None else topic.subscribe(there, name, replicated=True)
    come = topic.connect(known, name)
    moved = replace(consumer, cluster=there.name)
    after = replace(_with(_with(world, left), come), failovers=world.failovers[1:])
    consumers = tuple(moved if one is consumer else one for one in world.consumers)
    words = f"the consumer of {name} fails over from {left.name} to {there.name}"
    yield Step("fails over", words, there.name), replace(after, consumers=consumers)


def of_links(world: World) -> Next:
    """A link is cut, and its last entry will be replicated again; or it heals."""
    for pair in world.cuts:
        cluster = world.cluster(pair[0])
        link = replicators.rewound(cluster, cluster.link(pair[1]))
        after = topic.with_link(cluster, replace(link, state=LinkState.CUT))
        again = "" if link == cluster.link(pair[1]) else "; its last entry was not confirmed"
        step = Step("cuts", f"the link from {pair[0]} to {pair[1]} is cut{again}", pair[0], pair[1])
        yield step, replace(_with(world, after), cuts=tuple(one for one in world.cuts if one != pair))
    for cluster in world.clusters:
        for link in cluster.links:
            if link.state is LinkState.CUT:
                after = topic.with_link(cluster, replace(link, state=LinkState.CONNECTED))
                words = f"the link from {cluster.name} to {link.remote} heals"
                yield Step("heals", words, cluster.name, link.remote), _with(world, after)


def _with(world: World, cluster: Cluster) -> World:
    return replace(world, clusters=replicators.with_cluster(world.clusters, cluster))


def in_words(entry: Entry) -> str:
    """An entry in words."""
    match entry.item:
        case Message():
            return str(entry.item)
        case Request(snapshot=snapshot, round=number):
            return f"the request for {snapshot}" + ("" if number == 1 else f", round {number}")
        case Response(snapshot=snapshot, round=number):
            return f"{entry.origin}'s response to {snapshot}" + ("" if number == 1 else f", round {number}")
        case Snapshot():
            return snapshot_in_words(entry.item)
        case Update():
            return f"the update of {entry.item.subscription} to {_positions_in_words(entry.item.positions)}"


def snapshot_in_words(snapshot: Snapshot) -> str:
    """A snapshot in words."""
    return f"snapshot {snapshot.name} ({snapshot.local} here is {_positions_in_words(snapshot.positions)})"


def _positions_in_words(positions: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{position} in {cluster}" for cluster, position in positions)


def good_ending(world: World) -> bool:
    """Every message is in every cluster and processed, and no entry or marker is in transit."""
    at_rest = all(
        replicators.next_position(cluster, link) is None for cluster in world.clusters for link in cluster.links
    )
    stored = [{entry.item for entry in cluster.log if entry.is_message} for cluster in world.clusters]
    everything = set().union(*stored)
    return (
        not world.unpublished
        and at_rest
        and all(messages == everything for messages in stored)
        and all(consumer.processed >= everything and _is_through(world, consumer) for consumer in world.consumers)
    )


def _is_through(world: World, consumer: RoamingConsumer) -> bool:
    cluster = world.cluster(consumer.cluster)
    subscription = cluster.subscription(consumer.subscription)
    return subscription is not None and subscription.mark_delete == cluster.last
