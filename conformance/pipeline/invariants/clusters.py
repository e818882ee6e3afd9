"""One topic in several clusters: the events of all of them, and the identity of its messages.

A message has another position in each cluster. It is identified by its cluster of origin, producer, sequence id, batch
index and chunk id. Two copies of a message in one log count as one message.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from conformance.history.recorded import Kind
from conformance.pipeline.invariants.cursors import perhaps_acknowledged
from conformance.pipeline.topic import NEVER, NOBODY, Flags, Ints, TopicEvents, differs_from_before

UNKNOWN = -1
"""The number of a message that cannot be identified."""


@dataclass(frozen=True, slots=True)
class Way:
    """The replication from one cluster to another: the rows of the source's own messages in its log and in the
    target's.

    ``own`` and ``copies`` are the numbers of these messages.
    """

    source: int
    target: int
    sources: Ints
    targets: Ints
    own: Ints
    copies: Ints


class Replicated(TopicEvents):
    """A topic in all clusters that replicate it among one another: the rows of one cluster, then those of the next.

    Places and messages have consecutive numbers, which compare within a cluster.
    """

    def __init__(self, clusters: Sequence[TopicEvents]) -> None:
        super().__init__(pa.concat_tables([one.table for one in clusters]), clusters[0].setting)
        self.clusters = tuple(clusters)
        self._first = [0, *itertools.accumulate(map(len, clusters))]
        self._settled: dict[int, Ints] = {}
        self._due: dict[int, Flags | None] = {}

    @property
    def identity(self) -> tuple[str, str, str]:
        """Run, topic and all clusters."""
        run, topic, _ = self.clusters[0].identity
        return run, topic, ", ".join(one.identity[2] for one in self.clusters)

    @cached_property
    def faults(self) -> tuple[tuple[str, int, int], ...]:
        """The faults that concern the topic in any cluster."""
        return tuple(dict.fromkeys(fault for one in self.clusters for fault in one.faults))

    @cached_property
    def _begins_a_place(self) -> Flags:
        return super()._begins_a_place | differs_from_before(self.codes("cluster"))

    def at(self, number: int, rows: Ints) -> Ints:
        """Those of the rows that belong to a cluster, by its number."""
        own: Ints = rows[(rows >= self._first[number]) & (rows < self._first[number + 1])]
        return own

    def cluster_of(self, row: int) -> TopicEvents:
        """The topic in the cluster of a row."""
        return self.clusters[int(np.searchsorted(self._first, row, side="right")) - 1]

    def row_of(self, number: int, row: int) -> int:
        """The row here of a cluster's own row."""
        return self._first[number] + row

    # --------------------------------------------------------------------------------------------------------- messages

    @cached_property
    def origin(self) -> Ints:
        """For each row of a log, the number of its cluster of origin; unknown clusters have higher ones."""
        names = [one.identity[2] for one in self.clusters]
        here = np.repeat(np.arange(len(names)), [len(one) for one in self.clusters])
        origin = self.codes("replicated_from")
        number = np.arange(
            len(names), len(names) + int(origin.max()) + 2
        )  # the last one is for messages of this cluster
        for cluster, name in enumerate(names):
            code = self.code("replicated_from", name)
            if code != NOBODY:
                number[code] = cluster
        return np.where(origin < 0, here, number[origin])

    @cached_property
    def logs(self) -> Ints:
        """The rows of logs whose messages can be identified, in order."""
        rows = self.rows(Kind.LOG)
        has_identity = (self.codes("producer")[rows] >= 0) & (self.numbers("sequence_id", -1)[rows] >= 0)
        return rows[has_identity]

    @cached_property
    def same(self) -> Ints:
        """For each row of :attr:`logs`, the number of its message, equal in all clusters."""
        number = self.origin[self.logs]
        for column in (
            self.codes("producer"),
            self.numbers("sequence_id", -1),
            self.numbers("batch_index", -1),
            self.numbers("chunk_id", -1),
        ):
            values, rank = np.unique(column[self.logs], return_inverse=True)
            _, number = np.unique(number * (len(values) + 1) + rank, return_inverse=True)
        return number

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """The replication between each two clusters."""
        return tuple(self._way(*ends) for ends in itertools.permutations(range(len(self.clusters)), 2))

    def _way(self, source: int, target: int) -> Way:
        own = self.logs[self.origin[self.logs] == source]
        sources, targets = self.at(source, own), self.at(target, own)
        return Way(source, target, sources, targets, self.of_logs(sources), self.of_logs(targets))

    @property
    def different(self) -> int:
        """The number of messages in all clusters together."""
        return int(self.same.max(initial=-1)) + 1

    @cached_property
    def are_everywhere(self) -> Flags:
        """For each message, whether every cluster has it."""
        everywhere = np.ones(self.different, dtype=np.bool_)
        for number in range(len(self.clusters)):
            everywhere &= np.isin(np.arange(self.different), self.of_logs(self.at(number, self.logs)))
        return everywhere

    def same_of(self, rows: Ints) -> Ints:
        """The numbers of the messages at the positions of these rows; :data:`UNKNOWN` without one."""
        at_message = np.full(self.messages, UNKNOWN)
        at_message[self.message[self.logs]] = self.same
        return at_message[self.message[rows]]

    def of_logs(self, rows: Ints) -> Ints:
        """The numbers of the messages of these rows of :attr:`logs`."""
        return self.same[np.searchsorted(self.logs, rows)]

    def perhaps_acknowledged(self, subscription: int) -> Ints:
        """For each message, the earliest time at which it may be acknowledged or skipped in any cluster."""
        if subscription not in self._settled:
            self._settled[subscription] = self._perhaps_acknowledged(subscription)
        return self._settled[subscription]

    def _perhaps_acknowledged(self, subscription: int) -> Ints:
        name = self.name("subscription", self.of(subscription, np.arange(len(self)))[0])
        earliest = np.full(self.different, NEVER)
        for number, cluster in enumerate(self.clusters):
            logs = self.at(number, self.logs)
            settled = perhaps_acknowledged(cluster, cluster.code("subscription", name))
            np.minimum.at(earliest, self.of_logs(logs), settled[cluster.message[logs - self._first[number]]])
        return earliest

    def due(self, subscription: int) -> Flags | None:
        """Which messages are after the recorded beginnings of a subscription.

        None without a beginning, or with several in one cluster.
        """
        if subscription not in self._due:
            self._due[subscription] = self._after_beginnings(subscription)
        return self._due[subscription]

    def _after_beginnings(self, subscription: int) -> Flags | None:
        begins = self.at_a_position(self.of(subscription, self.rows(Kind.BEGIN)))
        due = np.ones(self.different, dtype=np.bool_)
        for number in range(len(self.clusters)):
            begun = self.at(number, begins)
            if len(begun) > 1:
                return None
            logs = self.at(number, self.logs)
            due[self.of_logs(logs[self.place[logs] <= self.place[begun].max(initial=-1)])] = False
        return due if len(begins) else None


def with_clusters(topics: Iterable[TopicEvents]) -> Iterator[TopicEvents]:
    """The topics, and after the last cluster of each, the topic in all clusters that replicate it."""
    for _, clusters in itertools.groupby(topics, key=lambda topic: topic.identity[:2]):
        replicated = []
        for topic in clusters:
            yield topic
            if topic.is_replicated:
                replicated.append(topic)
        if len(replicated) > 1:
            yield Replicated(replicated)
