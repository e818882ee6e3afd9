"""What must hold of replicated subscriptions: in every state, and in every step of a kind. Each is one short function.

REPL-14 (no message is missed) and REPL-15 (which are redelivered) are about messages, as positions differ by cluster.
"""

from __future__ import annotations

from itertools import pairwise

from model.explorations.replication.world import ANSWERED, RoamingConsumer, Setup, Step, World
from model.explore import Always, EveryStep
from model.replication.cluster import Cluster, LinkState
from model.replication.entries import Message, Request, Response, Snapshot, Update, is_sent
from model.replication.replicators import next_position
from model.replication.subscription import Subscription

Statements = tuple[tuple[Always[World], ...], tuple[EveryStep[World, Step], ...]]


def statements(setup: Setup) -> Statements:
    """The statements that must hold in this configuration."""
    makes = setup.replicated and bool(setup.snapshots)
    always = [SOUND, MARKERS_APART, WITHIN_LIMIT, ONLY_REPLICATED]
    every_step = [_in_order(setup)]
    if makes:
        every_step += [
            NEWS,
            CONNECTED,
            LAST_POSITION,
            OPENED,
            BY_ITS_REPLICATOR,
            FIRST_COUNTS,
            ROUNDS,
            STILL_MADE,
            MAPPING,
            LATEST_PASSED,
            APPLIED,
            OLDEST_GOES,
        ]
        if setup.cached >= len(setup.snapshots):
            always.append(_behind(setup))
        if setup.exact:
            always.append(EXACT)
    if setup.timeouts and makes:
        every_step.append(DROPPED)
    if setup.failovers:
        every_step.append(NOTHING_MISSED)
    return tuple(always), tuple(every_step)


def _consumer(world: World, cluster: Cluster, name: str) -> RoamingConsumer:
    """The consumer whose processing counts for a subscription in a cluster: the one there, or the one of that name."""
    of_name = [consumer for consumer in world.consumers if consumer.subscription == name]
    return next((consumer for consumer in of_name if consumer.cluster == cluster.name), of_name[0])


def acknowledged(cluster: Cluster, subscription: Subscription) -> set[Message]:
    """The messages that a subscription has acknowledged in a cluster."""
    positions = {*range(subscription.mark_delete + 1), *subscription.individual}
    return {item for one in positions if one <= cluster.last and isinstance(item := cluster.log[one].item, Message)}


def _sound(world: World) -> bool:
    return all(
        acknowledged(cluster, subscription) <= _consumer(world, cluster, subscription.name).processed
        for cluster in world.clusters
        for subscription in cluster.subscriptions
    )


def _nothing_missed(_: World, step: Step, after: World) -> bool:
    cluster = after.cluster(step.cluster)
    consumer = next(one for one in after.consumers if one.cluster == cluster.name and one.may_leave)
    subscription = cluster.subscription(consumer.subscription)
    assert subscription is not None
    return acknowledged(cluster, subscription) <= consumer.processed


def is_quiet(world: World) -> bool:
    """Whether the links have no entry in transit, and every consumer was sent all messages."""
    return all(next_position(cluster, link) is None for cluster in world.clusters for link in cluster.links) and all(
        subscription.read > cluster.last
        for cluster in world.clusters
        for subscription in cluster.subscriptions
        if subscription.connected
    )


def _behind(setup: Setup) -> Always[World]:
    """Messages redelivered after a failover are after the last passed snapshot, unless a crash lost the cursor."""

    def holds(world: World) -> bool:
        if not is_quiet(world):
            return True
        return all(
            _has_come_to(there, subscription, snapshot)
            for cluster in world.clusters
            for subscription in cluster.subscriptions
            if subscription.connected and subscription.replicated
            for snapshot in _last_passed(cluster, subscription)
            for there in world.clusters
            if there is not cluster and setup.crashes.count(there.name) == world.crashes.count(there.name)
        )

    return Always(
        ("REPL-13", "REPL-15"),
        "if links are idle, every cluster has acknowledged up to its position in the last snapshot that mark-delete "
        "passed, unless its broker crashed",
        holds,
    )


def _last_passed(cluster: Cluster, subscription: Subscription) -> list[Snapshot]:
    """The last snapshot of its log that mark-delete has passed, if there is one.

    A cached snapshot waits for the next advance of mark-delete, even if mark-delete had passed it before it was read.
    """
    written = (entry.item for entry in cluster.log if entry.origin == cluster.name)
    found = [one for one in written if isinstance(one, Snapshot) and one.local <= subscription.mark_delete]
    return [one for one in sorted(found, key=lambda one: one.local) if one not in subscription.cache][-1:]


def _has_come_to(cluster: Cluster, subscription: Subscription, snapshot: Snapshot) -> bool:
    there, position = cluster.subscription(subscription.name), snapshot.position(cluster.name)
    if there is not None and not there.replicated:
        return True
    return position is None or (there is not None and there.mark_delete >= position)


def _exact(world: World) -> bool:
    """The consumer has processed everything, and a snapshot that began after the last message is complete."""
    if not is_quiet(world):
        return True
    return all(
        acknowledged(there, subscription_there)
        >= {entry.item for entry in there.log if isinstance(entry.item, Message)}
        for cluster in world.clusters
        for subscription in cluster.subscriptions
        if subscription.connected and subscription.replicated and subscription.mark_delete == cluster.last
        if cluster.last_began and not any(entry.is_message for entry in cluster.log[cluster.last_began :])
        for there in world.clusters
        if (subscription_there := there.subscription(subscription.name)) is not None
    )


def _markers_apart(world: World) -> bool:
    return all(
        cluster.log[position].is_message
        for cluster in world.clusters
        for subscription in cluster.subscriptions
        if subscription.connected
        for position in subscription.unacknowledged
    )


def _within_limit(world: World) -> bool:
    return all(
        len(subscription.cache) <= cluster.cached
        and all(one.name.startswith(cluster.name) for one in subscription.cache)
        and all(one.local < other.local for one, other in pairwise(subscription.cache))
        for cluster in world.clusters
        for subscription in cluster.subscriptions
    )


def _only_replicated(world: World) -> bool:
    """Only replicated subscriptions are in other clusters, and markers exist only if there is one."""
    replicated = {one.name for cluster in world.clusters for one in cluster.subscriptions if one.replicated}
    at_home = {(consumer.subscription, consumer.cluster) for consumer in world.consumers}
    markers = [entry.item for cluster in world.clusters for entry in cluster.log if not entry.is_message]
    return (
        all(
            one.name in replicated or (one.name, cluster.name) in at_home
            for cluster in world.clusters
            for one in cluster.subscriptions
        )
        and (bool(replicated) or not markers)
        and all(one.subscription in replicated for one in markers if isinstance(one, Update))
    )


def _in_order(setup: Setup) -> EveryStep[World, Step]:
    def holds(before: World, step: Step, after: World) -> bool:
        entry, owner = step.entry, before.cluster(step.cluster)
        assert entry is not None
        stored = after.cluster(step.remote).log[-1]
        to_send = [
            one.source for one in owner.log if is_sent(one, owner=owner.name, remote=step.remote, variant=setup.variant)
        ]
        there = {one.source for one in before.cluster(step.remote).log if one.origin == owner.name}
        missing = [source for source in to_send if source not in there]
        repeats = setup.cuts != before.cuts or setup.crashes != before.crashes
        return stored == entry and (entry.source in missing[:1] or (repeats and entry.source in there))

    return EveryStep(
        ("REPL-01",),
        "each entry is replicated to each other cluster once, in order; again only after a link was "
        "cut or a broker crashed",
        frozenset({"replicates", "sends"}),
        holds,
    )


def _news(before: World, step: Step, _: World) -> bool:
    cluster = before.cluster(step.cluster)
    return any(entry.is_message for entry in cluster.log[cluster.last_began :])


def _connected(before: World, step: Step, _: World) -> bool:
    return all(link.state is LinkState.CONNECTED for link in before.cluster(step.cluster).links)


def _last_position(before: World, step: Step, after: World) -> bool:
    written = after.cluster(step.cluster).log[-1]
    assert isinstance(written.item, Response)
    return written.item.position == before.cluster(step.cluster).last < written.source


def _opened(_: World, step: Step, after: World) -> bool:
    return after.cluster(step.cluster).link(step.remote).state is not LinkState.CLOSED


def _by_its_replicator(_: World, step: Step, __: World) -> bool:
    return step.entry is not None and step.entry.origin == step.remote


def _first_counts(before: World, step: Step, after: World) -> bool:
    known = {one.name: dict(one.positions) for one in before.cluster(step.cluster).building}
    now = {one.name: dict(one.positions) for one in after.cluster(step.cluster).building}
    return all(now[name].items() >= positions.items() for name, positions in known.items() if name in now)


def _rounds(before: World, step: Step, after: World) -> bool:
    cluster = after.cluster(step.cluster)
    name = _completed(after, step).name
    asked = {one.item.round for one in cluster.log if isinstance(one.item, Request) and one.item.snapshot == name}
    answers = [entry.item for entry in cluster.log if isinstance(entry.item, Response) and entry.item.snapshot == name]
    needed = {1, 2} if len(before.clusters) > 2 else {1}
    last = [one for one in answers if one.round == max(needed)]
    return asked == needed and len(last) >= len(cluster.links)


def _still_made(before: World, step: Step, _: World) -> bool:
    assert step.entry is not None
    item = step.entry.item
    assert isinstance(item, Response)
    return item.snapshot in {one.name for one in before.cluster(step.cluster).building}


def _mapping(_: World, step: Step, after: World) -> bool:
    snapshot, log = _completed(after, step), after.cluster(step.cluster).log
    first: dict[str, int] = {}
    stands: dict[tuple[int, str], int] = {}
    for index, entry in enumerate(log):
        if isinstance(entry.item, Response) and entry.item.snapshot == snapshot.name:
            first.setdefault(entry.origin, entry.item.position)
            stands.setdefault((entry.item.round, entry.origin), index)
    last_round = max((number for number, _ in stands), default=None)
    last = max((index for (number, _), index in stands.items() if number == last_round), default=None)
    return snapshot.local == last and dict(snapshot.positions) == first


def _completed(after: World, step: Step) -> Snapshot:
    item = after.cluster(step.cluster).log[-1].item
    assert isinstance(item, Snapshot)
    return item


def _dropped(before: World, step: Step, after: World) -> bool:
    return len(after.cluster(step.cluster).building) == len(before.cluster(step.cluster).building) - 1


def _latest_passed(before: World, step: Step, after: World) -> bool:
    cluster = after.cluster(step.cluster)
    return all(
        _publishes_rightly(before.cluster(cluster.name), cluster, one)
        for one in before.cluster(cluster.name).subscriptions
    )


def _publishes_rightly(before: Cluster, after: Cluster, was: Subscription) -> bool:
    now = after.subscription(was.name)
    assert now is not None
    read = [after.log[one].item for one in range(was.read, now.read) if one not in was.individual]
    known = {one.local: one for one in (*was.cache, *(one for one in read if isinstance(one, Snapshot)))}
    usable = [known[local] for local in sorted(known) if local <= now.mark_delete]
    written = [entry.item for entry in after.log[len(before.log) :]]
    updates = [one for one in written if isinstance(one, Update) and one.subscription == was.name]
    if now.mark_delete == was.mark_delete or not usable or not was.replicated:
        return not updates
    return [one.positions for one in updates] == [usable[-1].positions]


def _applied(before: World, step: Step, after: World) -> bool:
    assert step.entry is not None
    change = step.entry.item
    assert isinstance(change, Update)
    position = dict(change.positions).get(step.cluster)
    was = before.cluster(step.cluster).subscription(change.subscription)
    now = after.cluster(step.cluster).subscription(change.subscription)
    if position is None or (was is not None and not was.replicated):
        return True
    if now is None or not now.replicated:
        return False
    had = set() if was is None else acknowledged(before.cluster(step.cluster), was)
    log = after.cluster(step.cluster).log
    should = had | {entry.item for entry in log[: position + 1] if isinstance(entry.item, Message)}
    return now.mark_delete >= position and acknowledged(after.cluster(step.cluster), now) == should


def _oldest_goes(before: World, step: Step, after: World) -> bool:
    for was in before.cluster(step.cluster).subscriptions:
        now = after.cluster(step.cluster).subscription(was.name)
        assert now is not None
        kept = [one for one in was.cache if one in now.cache]
        if kept != list(was.cache[len(was.cache) - len(kept) :]):
            return False
        came = after.cluster(step.cluster).log[step.position].item
        if now.read > was.read and was.replicated and now.mark_delete < _local(came) and came not in now.cache:
            return False
    return True


def _local(item: object) -> int:
    return item.local if isinstance(item, Snapshot) else -1


SOUND = Always(("REPL-14",), "every message that is acknowledged in any cluster was processed by the consumer", _sound)
EXACT = Always(
    ("REPL-15",),
    "if all is acknowledged and a snapshot began after the last message, a failover on idle links redelivers nothing",
    _exact,
)
MARKERS_APART = Always(("REPL-10",), "no marker is pending at a consumer", _markers_apart)
WITHIN_LIMIT = Always(
    ("REPL-11",),
    "a cache has snapshots of its own cluster, no more than its limit, in the order of their local positions",
    _within_limit,
)
ONLY_REPLICATED = Always(
    ("REPL-18",),
    "only replicated subscriptions cause markers, and subscriptions in other clusters",
    _only_replicated,
)
NOTHING_MISSED = EveryStep(
    ("REPL-14",),
    "a consumer that fails over is sent every message that it has not processed",
    frozenset({"fails over"}),
    _nothing_missed,
    promise=True,
)
NEWS = EveryStep(
    ("REPL-02",),
    "a snapshot begins only if a message was published since the last completed one began",
    frozenset({"begins"}),
    _news,
)
CONNECTED = EveryStep(
    ("REPL-03",), "a snapshot begins while all replicators are connected", frozenset({"begins"}), _connected
)
LAST_POSITION = EveryStep(
    ("REPL-04",),
    "a cluster responds with its last position, in a later entry",
    frozenset({"answers"}),
    _last_position,
)
OPENED = EveryStep(
    ("REPL-17",),
    "a cluster that responds has no closed replicator to the requesting cluster",
    frozenset({"answers"}),
    _opened,
)
BY_ITS_REPLICATOR = EveryStep(
    ("REPL-05",),
    "a marker is handled by the replicator to the cluster that wrote it",
    frozenset({"answers", "updates", "creates", "arrives late"}) | ANSWERED,
    _by_its_replicator,
)
FIRST_COUNTS = EveryStep(
    ("REPL-06",), "a cluster's first response counts, and later ones change nothing", ANSWERED, _first_counts
)
ROUNDS = EveryStep(
    ("REPL-07",),
    "a snapshot is complete when all other clusters have responded twice, or once if there is only one",
    frozenset({"completes"}),
    _rounds,
)
STILL_MADE = EveryStep(
    ("REPL-08",), "a response counts only for its own snapshot, while that is in progress", ANSWERED, _still_made
)
DROPPED = EveryStep(("REPL-08",), "a snapshot that timed out is not completed", frozenset({"gives up"}), _dropped)
MAPPING = EveryStep(
    ("REPL-09",),
    "a snapshot has the local position of the last response, and the positions of the first responses",
    frozenset({"completes"}),
    _mapping,
)
LATEST_PASSED = EveryStep(
    ("REPL-12",),
    "when mark-delete advances, the last cached snapshot that it has passed is published, and nothing else",
    frozenset({"acknowledges", "caches"}),
    _latest_passed,
)
APPLIED = EveryStep(
    ("REPL-13",),
    "an update acknowledges up to its cluster's position, in a subscription that then exists and is replicated",
    frozenset({"updates", "creates"}),
    _applied,
)
OLDEST_GOES = EveryStep(
    ("REPL-11",), "a snapshot that is read is cached, and replaces the oldest", frozenset({"caches"}), _oldest_goes
)
