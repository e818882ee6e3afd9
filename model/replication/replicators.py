"""What goes on between clusters: each replicator reads its cluster's log in order, sends on, and handles markers.

A replicator that is not connected goes on reading, and handles the markers before the next entry that it should send.
When its link is cut, what it had sent last may have come without its knowing: it may be sent again, and a marker may be
handled again.
"""

from __future__ import annotations

from msgspec.structs import replace

from model.replication import cluster as topic
from model.replication.cluster import Cluster, Link, LinkState
from model.replication.entries import Request, Response, Update, is_handled, is_sent
from model.rules.catalogue import carries

Clusters = tuple[Cluster, ...]
"""The topic in all clusters, by their names in order."""


def named(clusters: Clusters, name: str) -> Cluster:
    """The cluster of this name; KeyError when there is none."""
    found = next((one for one in clusters if one.name == name), None)
    if found is None:
        raise KeyError(f"there is no cluster {name}")
    return found


def with_cluster(clusters: Clusters, changed: Cluster) -> Clusters:
    """The clusters with this one instead of that of the same name."""
    return tuple(changed if one.name == changed.name else one for one in clusters)


def next_position(cluster: Cluster, link: Link) -> int | None:
    """The position of the next entry that a replicator sends or handles, if there is one."""
    order = range(link.next, len(cluster.log))
    return next((position for position in order if concerns(cluster, link, position)), None)


def concerns(cluster: Cluster, link: Link, position: int) -> bool:
    """Whether a replicator sends or handles the entry at this position."""
    return sends(cluster, link, position) or _handles(cluster, link, position)


def sends(cluster: Cluster, link: Link, position: int) -> bool:
    """Whether a replicator sends the entry at this position eventually."""
    return is_sent(cluster.log[position], owner=cluster.name, remote=link.remote, variant=cluster.variant)


def _handles(cluster: Cluster, link: Link, position: int) -> bool:
    return is_handled(cluster.log[position], owner=cluster.name, remote=link.remote, variant=cluster.variant)


def is_stuck(cluster: Cluster, link: Link, position: int) -> bool:
    """Whether an entry blocks a replicator: it must be sent, and the replicator is not connected."""
    return link.state is not LinkState.CONNECTED and sends(cluster, link, position)


@carries("REPL-01", "REPL-05")
def go_on(clusters: Clusters, owner: str, remote: str, position: int) -> Clusters:
    """A replicator sends the entry at this position to the other cluster (REPL-01), or handles it.

    It handles only markers of the cluster that it replicates to (REPL-05).
    """
    cluster = named(clusters, owner)
    link = cluster.link(remote)
    after = topic.with_link(cluster, replace(link, next=position + 1))
    if sends(cluster, link, position):
        stored = topic.receive(named(clusters, remote), cluster.log[position])
        return with_cluster(with_cluster(clusters, after), stored)
    return with_cluster(clusters, handle(after, position))


@carries("REPL-04", "REPL-05", "REPL-13")
def handle(cluster: Cluster, position: int) -> Cluster:
    """A marker of another cluster, stored at this position, is handled."""
    entry = cluster.log[position]
    match entry.item:
        case Request():
            return topic.answer(cluster, entry.item, asked_by=entry.origin)
        case Response():
            return topic.receive_response(cluster, entry.item, answerer=entry.origin, stored_at=position)
        case Update():
            return topic.update(cluster, entry.item)
        case _:
            raise ValueError(f"entry {position} of {cluster.name} is nothing to be handled")


def rewound(cluster: Cluster, link: Link) -> Link:
    """A replicator that repeats its last entry; the same if there is none."""
    if cluster.variant.in_flight_lost:
        lost = next_position(cluster, link)
        return link if lost is None else replace(link, next=lost + 1)
    last = next((p for p in range(link.next - 1, -1, -1) if concerns(cluster, link, p)), None)
    return link if last is None else replace(link, next=last)
