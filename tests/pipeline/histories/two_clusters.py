"""Histories of two correct clusters that replicate a topic: anomalies of document 001 are planted in them.

Both clusters have producers. A replicated subscription is consumed at A, then fails over to B, which lags; readings of
its mark-delete in the cluster without consumers follow snapshots. In the end all logs are read back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from conformance.history.recorded import Kind, Recorded

STEP_NS = 1_000_000
LAG = 3
"""How many messages later one is replicated."""

BEHIND = 5
"""How many messages a cluster's mark-delete lags behind that of the cluster with the consumers."""

MARKER_EVERY = 7
SUBSCRIPTION = "s"


@dataclass(slots=True)
class _Cluster:
    name: str
    ledger: int
    log: list[Recorded] = field(default_factory=list)
    entry: int = 0

    def store(self, message: dict[str, Any], origin: str) -> Recorded:
        self.entry += 2 if self.entry % MARKER_EVERY == MARKER_EVERY - 2 else 1
        place = {"ledger": self.ledger, "entry": self.entry}
        replicated_from = None if origin == self.name else origin
        self.log.append(self.event(Kind.LOG, 0, **message, **place, replicated_from=replicated_from))
        return self.log[-1]

    def event(self, kind: Kind, at_ns: int, **fields: Any) -> Recorded:
        who: dict[str, Any] = {"run": "r", "lane": "w", "cluster": self.name, "topic": "t", "kind": kind}
        return Recorded(**who, **fields, invoked_ns=at_ns, completed_ns=at_ns + 1)

    def of_subscription(self, kind: Kind, at_ns: int, at: Recorded | None = None, **fields: Any) -> Recorded:
        place = {"ledger": -1, "entry": -1} if at is None else {"ledger": at.ledger, "entry": at.entry}
        return self.event(kind, at_ns, subscription=SUBSCRIPTION, **place, **fields)


def events(seed: int, *, messages: int = 60) -> list[Recorded]:
    """All events, in no order; ``messages`` in both clusters together."""
    chance = random.Random(seed)
    a, b = _Cluster("A", 3), _Cluster("B", 40)
    history = _sent(a, b, messages, chance)
    end_ns = 10 * messages * STEP_NS
    failing_over = messages // 2 + chance.randrange(5)
    history += _consumed(a, a.log[:failing_over], 0)
    since = max(0, failing_over - BEHIND)
    history += _followed(a, b, failing_over)
    history += _consumed(b, b.log[_covered(a, b, since) :], 5 * messages * STEP_NS)
    for cluster in (a, b):
        last = cluster.log[-1]
        history.append(cluster.event(Kind.TOPIC, 0, deduplication=True, replicated=True))
        history.append(cluster.of_subscription(Kind.CURSOR, end_ns, last))
        history.append(cluster.event(Kind.PASSED_ON, end_ns, ledger=last.ledger, entry=last.entry))
        at_end = {"invoked_ns": end_ns + 10, "completed_ns": end_ns + 11}
        history += [replace(one, **at_end) for one in cluster.log]
        history.append(cluster.event(Kind.LOG_END, end_ns + 10, ledger=last.ledger, entry=last.entry))
        history.append(cluster.of_subscription(Kind.DRAINED, end_ns + 20, last))
    return [*history, a.of_subscription(Kind.BEGIN, 0, replicated=True)]


def _covered(a: _Cluster, b: _Cluster, count: int) -> int:
    """How many messages of B's log are among the first ``count`` of A's, with all before them."""
    passed = [one.digest for one in a.log[:count]]
    return next(number for number, one in enumerate(b.log) if one.digest not in passed)


def _followed(a: _Cluster, b: _Cluster, count: int) -> list[Recorded]:
    """Readings at B while ``count`` messages are acknowledged at A, which lag a little."""
    history = []
    for number in range(BEHIND, count, BEHIND):
        covered = _covered(a, b, number - BEHIND)
        if covered:
            history.append(b.of_subscription(Kind.CURSOR, _given_ns(number, 0) + 2 * STEP_NS, b.log[covered - 1]))
    return history


def _given_ns(number: int, since_ns: int) -> int:
    """When a consumer that subscribed then receives one of its messages."""
    return since_ns + (2 * number + 100) * STEP_NS


def _sent(a: _Cluster, b: _Cluster, messages: int, chance: random.Random) -> list[Recorded]:
    """Messages of both clusters, which are replicated later and in order; fills the logs."""
    history, under_way = [], list[tuple[int, _Cluster, dict[str, Any], str]]()
    for number in range(messages + LAG + 1):
        while under_way and (under_way[0][0] <= number):
            _, target, message, origin = under_way.pop(0)
            target.store(message, origin)
        if number >= messages:
            continue
        here, there = chance.sample([a, b], 2)
        message = {"producer": f"p{here.name}", "sequence_id": number + 1, "digest": chance.getrandbits(60)}
        message["key"] = f"k{chance.randrange(9)}"
        place = here.store(message, here.name)
        stored_at = {"ledger": place.ledger, "entry": place.entry}
        history.append(here.event(Kind.SEND, number * STEP_NS, **message, **stored_at))
        under_way.append((number + chance.randrange(1, LAG + 1), there, message, here.name))
    return history


def _consumed(at: _Cluster, log: list[Recorded], since_ns: int) -> list[Recorded]:
    """A consumer receives these messages one after the other, and acknowledges each; a reading now and then."""
    who = {"consumer": f"c{at.name}", "subscription_type": "Shared"}
    history = [at.event(Kind.SUBSCRIBE, since_ns, subscription=SUBSCRIPTION, replicated=True, **who)]
    for number, one in enumerate(log):
        at_ns = _given_ns(number, since_ns)
        fields = {"producer": one.producer, "key": one.key, "digest": one.digest}
        history.append(at.of_subscription(Kind.DISPATCH, at_ns, one, **who, **fields))
        history.append(at.of_subscription(Kind.ACK, at_ns + STEP_NS, one, **who))
        if number % BEHIND == 0:
            history.append(at.of_subscription(Kind.CURSOR, at_ns + STEP_NS + 10, one))
    return history
