"""All invariants: the rule that each decides, and the function of its document's module.

To add one, write its function, list it here, and break it in ``tests/pipeline`` in at least three ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from conformance.pipeline.invariants import (
    chunking,
    contents,
    cursors,
    deduplication,
    key_shared,
    liveness,
    membership,
    replication,
)
from conformance.pipeline.invariants.clusters import Replicated
from conformance.pipeline.topic import NOTHING, Evidence, TopicEvents

Judged = TypeVar("Judged", bound=TopicEvents)


@dataclass(frozen=True, slots=True)
class _Deciding(Generic[Judged]):
    """A statement that holds in every history that keeps its rule, and the function that decides it."""

    rule: str
    decide: Callable[[Judged], Evidence]

    @property
    def name(self) -> str:
        """The name of the function in words, for reports."""
        return self.decide.__name__.replace("_", " ")


class Invariant(_Deciding[TopicEvents]):
    """An invariant of a topic in one cluster."""

    __slots__ = ()

    def judge(self, topic: TopicEvents) -> Evidence:
        """The evidence on a topic in one cluster; none on several clusters together."""
        return NOTHING if isinstance(topic, Replicated) else self.decide(topic)


class OfClusters(_Deciding[Replicated]):
    """An invariant of a topic in all clusters that replicate it."""

    __slots__ = ()

    def judge(self, topic: TopicEvents) -> Evidence:
        """The evidence on several clusters together; none on a single one."""
        return self.decide(topic) if isinstance(topic, Replicated) else NOTHING


AnyInvariant: TypeAlias = Invariant | OfClusters


INVARIANTS: tuple[AnyInvariant, ...] = (
    Invariant("DEDUP-02", deduplication.stored_twice),
    Invariant("DEDUP-03", deduplication.falsely_confirmed),
    Invariant("DEDUP-07", contents.sent_by_nobody),
    Invariant("DEDUP-12", deduplication.forgotten),
    Invariant("DEDUP-13", deduplication.out_of_order),
    Invariant("DEDUP-15", deduplication.lost),
    Invariant("DEDUP-15", chunking.lost_in_part),
    Invariant("DEDUP-16", chunking.chunked_missed),
    Invariant("DEDUP-16", contents.delivered_otherwise),
    Invariant("DEDUP-16", deduplication.missed),
    Invariant("DEDUP-16", liveness.stuck),
    OfClusters("REPL-01", replication.not_replicated),
    OfClusters("REPL-01", replication.from_no_cluster),
    OfClusters("REPL-01", replication.without_original),
    OfClusters("REPL-01", replication.replicated_twice),
    OfClusters("REPL-01", replication.replicated_out_of_order),
    OfClusters("REPL-01", replication.replicated_otherwise),
    OfClusters("REPL-13", replication.left_behind),
    OfClusters("REPL-14", replication.ahead),
    OfClusters("REPL-14", replication.missed_everywhere),
    Invariant("REPL-18", contents.from_another_cluster),
    Invariant("CHUNK-02", chunking.chunks_agree),
    Invariant("CHUNK-03", chunking.chunks_in_order),
    Invariant("CHUNK-04", chunking.delivered_whole),
    Invariant("CHUNK-05", chunking.given_in_order),
    Invariant("CHUNK-13", chunking.stored_whole),
    Invariant("CHUNK-13", chunking.stored_once_in_order),
    Invariant("CHUNK-14", chunking.chunked_missed_by_all),
    Invariant("ACK-01", cursors.mark_delete_over_a_hole),
    Invariant("ACK-02", cursors.mark_delete_back),
    Invariant("ACK-02", cursors.mark_delete_late),
    Invariant("ACK-06", contents.beyond_the_end),
    Invariant("ACK-06", contents.read_before_sent),
    Invariant("ACK-06", cursors.positions_rise),
    Invariant("ACK-09", cursors.delivered_again),
    Invariant("ACK-12", cursors.shared_one_at_a_time),
    Invariant("ACK-13", cursors.redelivered_without_request),
    Invariant("ACK-01", cursors.delivered_before_beginning),
    Invariant("KEY-01", key_shared.one_consumer_at_a_time),
    Invariant("KEY-02", key_shared.keys_in_order),
    Invariant("KEY-03", membership.keys_stay),
    Invariant("KEY-13", liveness.keys_stuck),
    Invariant("SERVE-05", membership.one_active_consumer),
    Invariant("SERVE-01", contents.refused_but_stored),
)


def names_by_rule() -> dict[str, list[str]]:
    """The names of the invariants that decide each rule."""
    names: dict[str, list[str]] = {}
    for invariant in INVARIANTS:
        names.setdefault(invariant.rule, []).append(invariant.name)
    return names


BY_NAME = {invariant.name: invariant for invariant in INVARIANTS}
