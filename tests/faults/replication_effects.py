"""The effect of each seeded defect of clusters, as an experiment with one observation without it, and one with it.

Those of most other defects are shown by their minimal histories (``tests/replays``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from model.cluster_events import CaughtUp, CursorAdministered
from model.cluster_operations import (
    AdministerAt,
    AdministratorsRequest,
    AwaitTimedOut,
    CatchUp,
    CutLink,
    HealLink,
)
from model.events import Skipped
from model.operations import OpenProducer, Unload
from model.replication.logs import Log, SnapshotSeen
from model.subscription_operations import Expire, ResetCursor, Skip
from tests.faults.experiments import Observation
from tests.faults.replication_fixtures import CONSUMER, SESSION, SUBSCRIPTION, TOPIC, Fixture
from tests.waits import becomes


@dataclass(frozen=True, slots=True)
class ReplicationEffect:
    """An experiment with this many clusters, and its observation without and with the defect."""

    experiment: Callable[[Fixture], Observation]
    sound: Observation
    defective: Observation
    clusters: int = 2
    is_replicated: bool = True
    replicated_by: Literal["namespace", "topic"] = "namespace"


def first_snapshot(fixture: Fixture) -> tuple[Log, SnapshotSeen]:
    """The first snapshot that cluster A completes after a message."""
    fixture.publish("m0")
    fixture.await_snapshot_after("m0")
    log = fixture.logs()["A"]
    return log, next(snapshot for snapshot in log.snapshots if snapshot.taken is not None)


def its_requests(fixture: Fixture) -> Observation:
    """The number of rounds of a snapshot."""
    _, snapshot = first_snapshot(fixture)
    return len(snapshot.requests)


def its_own_position(fixture: Fixture) -> Observation:
    """A snapshot's local position, relative to the last response."""
    log, snapshot = first_snapshot(fixture)
    assert snapshot.taken is not None
    answer = log.entries[snapshot.answers[-1].index].position
    return "at" if snapshot.taken.local == answer else "before" if snapshot.taken.local < answer else "behind"


def the_others_positions(fixture: Fixture) -> Observation:
    """Which of its responses a snapshot's positions belong to: the first or the last."""
    _, snapshot = first_snapshot(fixture)
    assert snapshot.taken is not None
    answers = [answer.position for answer in snapshot.answers if answer.cluster == "B"]
    assert len(answers) == 2
    return answers.index(snapshot.taken.positions["B"])


def its_answers(fixture: Fixture) -> Observation:
    """How often each cluster responds to a request."""
    _, snapshot = first_snapshot(fixture)
    return len(snapshot.answers) / len(snapshot.requests)


def answering(fixture: Fixture) -> Observation:
    """Whether the position in a response is one before its own."""
    _, snapshot = first_snapshot(fixture)
    log = fixture.logs()[snapshot.answers[0].cluster]
    own = [entry.position for entry in log.entries if entry.origin == log.cluster and entry.marker is not None]
    return snapshot.answers[0].position < own[0]


def answering_late(fixture: Fixture) -> Observation:
    """Delay responses beyond the timeout: whether the snapshot is given up, and whether one is completed late."""
    first_snapshot(fixture)
    fixture.do(CutLink("B", "A"))
    fixture.publish("m1")
    waited = fixture.do(AwaitTimedOut("A"))
    fixture.do(HealLink("B", "A"))
    fixture.await_back("B", "A")
    return not isinstance(waited, Skipped), becomes(lambda: _is_completed_late(fixture.logs()["A"]), within_s=5)


def _is_completed_late(log: Log) -> bool:
    took_ms = [
        log.entries[snapshot.taken_index].published_ms - log.entries[snapshot.requests[0]].published_ms
        for snapshot in log.snapshots
        if snapshot.taken_index is not None
    ]
    return max(took_ms) > 2500  # given up after 2000, by the next period at the latest


def beginning_again(fixture: Fixture) -> Observation:
    """Publish one message: whether further snapshots begin."""
    fixture.publish("m0")
    fixture.await_snapshot_after("m0")
    return becomes(lambda: len(fixture.reading.snapshots("A")) > 6, within_s=5)


def beginning_while_cut(fixture: Fixture) -> Observation:
    """Cut the link from a cluster, and publish there: whether a snapshot begins."""
    fixture.do(CutLink("A", "B"))
    fixture.publish("m0")
    return becomes(lambda: bool(fixture.reading.snapshots("A")), within_s=5)


def beginning_for_nobody(fixture: Fixture) -> Observation:
    """Publish where no subscription is replicated: whether there is a marker."""
    fixture.publish("m0")
    return any(entry.marker is not None for entry in fixture.logs()["A"].entries)


def updates(log: Log) -> list[int]:
    """The numbers of the snapshots to which a cluster updated the subscription."""
    taken = [snapshot.taken.positions for snapshot in log.snapshots if snapshot.taken is not None]
    return [taken.index(update.positions) for _, update in log.updates(SUBSCRIPTION)]


def acknowledging(count: int, *acknowledged: str) -> Callable[[Fixture], Observation]:
    """Acknowledge some of the messages that have a snapshot after each: whether there is an update."""

    def experiment(fixture: Fixture) -> Observation:
        return bool(updates(fixture.pass_snapshots(count, acknowledged)["A"]))

    return experiment


def acknowledging_all(count: int) -> Callable[[Fixture], Observation]:
    """Acknowledge all messages that have a snapshot after each: how many snapshots are after that of the update."""

    def experiment(fixture: Fixture) -> Observation:
        log = fixture.pass_snapshots(count, [f"m{number}" for number in range(count)])["A"]
        taken = [snapshot for snapshot in log.snapshots if snapshot.taken is not None]
        return len(taken) - 1 - updates(log)[0]

    return experiment


def restricting(fixture: Fixture) -> Observation:
    """Publish messages that may be at B, at no other cluster, and at all clusters: which of them B has."""
    fixture.publish("b", only_to=("B",))
    fixture.publish("none", only_to=())
    fixture.publish("all")
    fixture.await_at_b("all")
    return list(fixture.reading.messages("B"))


def lagging(fixture: Fixture) -> Observation:
    """A consumer leaves two messages unacknowledged all the while: whether B follows it."""
    caught_up = fixture.do(CatchUp(CONSUMER, "c", most_periods=100, lag=2))
    assert isinstance(caught_up, CaughtUp)
    return caught_up.lagged is None


def publishing(fixture: Fixture) -> Observation:
    """Acknowledge one of two messages: whether the first update refers to a snapshot before the other one."""
    log = fixture.pass_snapshots(2, ["m0"])["A"]
    taken = [snapshot.taken for snapshot in log.snapshots if snapshot.taken is not None]
    other = next(entry.position for entry in log.entries if entry.message == "m1")
    return taken[updates(log)[0]].local < other


def updating(fixture: Fixture) -> Observation:
    """Acknowledge one of two messages at A: the subscription's state in B afterwards."""
    log = fixture.pass_snapshots(2, ["m0"])["B"]
    cursor = log.cursor(SUBSCRIPTION)
    return None if cursor is None else (cursor.is_replicated, sorted(log.passed(cursor)))


def updating_two(fixture: Fixture) -> Observation:
    """Acknowledge a message at A: at how many of B and C the ack arrives."""
    logs = fixture.pass_snapshots(1, ["m0"])
    cursors = {label: logs[label].cursor(SUBSCRIPTION) for label in "BC"}
    return sum(cursor is not None and bool(logs[label].passed(cursor)) for label, cursor in cursors.items())


def delivering(fixture: Fixture) -> Observation:
    """Publish a message, and wait for its snapshot: whether the consumer receives anything else."""
    fixture.publish("m0")
    fixture.await_snapshot_after("m0")
    return fixture.take() != ["m0"]


def counting(fixture: Fixture) -> Observation:
    """Acknowledge everything: whether there is a backlog."""
    cursor = fixture.pass_snapshots(1, ["m0"])["A"].cursor(SUBSCRIPTION)
    assert cursor is not None
    return cursor.backlog > 0


def replicating(count: int) -> Callable[[Fixture], Observation]:
    """Replicate this many messages at once: how many B has from A, and whether in order."""

    def experiment(fixture: Fixture) -> Observation:
        fixture.do(CutLink("A", "B"))
        fixture.publish(*(f"m{number}" for number in range(count)))
        fixture.do(HealLink("A", "B"))
        fixture.await_at_b(f"m{count - 2}")
        came = fixture.logs()["B"].messages("A")
        return len(came), list(came) == sorted(came)

    return experiment


def going_on_without_c(fixture: Fixture) -> Observation:
    """Cut the link from A to C, and publish twice at A: whether B receives the second message."""
    fixture.do(CutLink("A", "C"))
    fixture.publish("m0")
    becomes(lambda: "m0" in fixture.reading.messages("B"), within_s=5)  # by the read that waits for it
    fixture.publish("m1")
    return becomes(lambda: "m1" in fixture.reading.messages("B"), within_s=5)


def administering(asked: AdministratorsRequest) -> Callable[[Fixture], Observation]:
    """An administrator requests something at A, while a consumer has three messages: which are acknowledged then."""

    def experiment(fixture: Fixture) -> Observation:
        fixture.publish("m0", "m1", "m2")
        fixture.take()
        assert isinstance(fixture.do(AdministerAt("A", asked)), CursorAdministered)
        log = fixture.logs()["A"]
        cursor = log.cursor(SUBSCRIPTION)
        return None if cursor is None else sorted(log.passed(cursor))

    return experiment


def reloading_while_cut(fixture: Fixture) -> Observation:
    """Publish a message at A while the link to B is cut, and reload the topic: which messages B has at the end."""
    fixture.publish("m0")
    fixture.await_at_b("m0")
    fixture.do(CutLink("A", "B"))
    fixture.publish("m1")
    fixture.do(Unload(TOPIC, cluster="A"), OpenProducer(SESSION, TOPIC, "p", cluster="A"))
    fixture.do(HealLink("A", "B", is_awaited=True))
    fixture.publish("m2")
    fixture.await_at_b("m2")
    return list(fixture.reading.messages("B"))


REPLICATION_EFFECTS: dict[str, ReplicationEffect] = {
    "response-position-too-high": ReplicationEffect(answering, True, False),
    "cache-cleared-by-ack": ReplicationEffect(lagging, True, False),
    "cache-keeps-the-latest-only": ReplicationEffect(lagging, True, False),
    "cache-unbounded": ReplicationEffect(acknowledging(5, "m0"), False, True),
    "created-at-latest": ReplicationEffect(updating, (True, ["m0"]), (True, ["m0", "m1"])),
    "created-unreplicated": ReplicationEffect(updating, (True, ["m0"]), (False, ["m0"])),
    "expiry-at-replicated-expires-all": ReplicationEffect(
        administering(Expire(TOPIC, SUBSCRIPTION, "m0")), ["m0"], ["m0", "m1", "m2"]
    ),
    "full-cache-keeps-the-oldest": ReplicationEffect(acknowledging(5, "m0"), False, True),
    "handled-by-every-replicator": ReplicationEffect(its_answers, 2, 4, clusters=3),
    "individual-ack-publishes": ReplicationEffect(acknowledging(2, "m1"), False, True),
    "late-response-accepted": ReplicationEffect(answering_late, (True, False), (True, True)),
    "lost-cluster-holds-up-others": ReplicationEffect(going_on_without_c, True, False, clusters=3),
    "marker-delivered": ReplicationEffect(delivering, False, True),
    "markers-unacknowledged": ReplicationEffect(counting, False, True),
    "missing-not-created": ReplicationEffect(updating, (True, ["m0"]), None),
    "next-snapshot-published": ReplicationEffect(publishing, True, False),
    "oldest-snapshot-published": ReplicationEffect(acknowledging_all(3), 0, 2),
    "reload-skips-what-topic-policy-replicates": ReplicationEffect(
        reloading_while_cut, ["m0", "m1", "m2"], ["m0", "m2"], replicated_by="topic"
    ),
    "replicated-as-its-own": ReplicationEffect(replicating(5), (5, True), (0, True)),
    "replicated-not-at-all": ReplicationEffect(replicating(5), (5, True), (4, True)),
    "replicated-out-of-order": ReplicationEffect(replicating(5), (5, True), (5, False)),
    "reset-of-replicated-goes-to-end": ReplicationEffect(
        administering(ResetCursor(TOPIC, SUBSCRIPTION, "m1")), ["m0"], ["m0", "m1", "m2"]
    ),
    "restricted-not-at-all": ReplicationEffect(restricting, ["b", "all"], ["all"]),
    "restriction-ignored": ReplicationEffect(restricting, ["b", "all"], ["b", "none", "all"]),
    "second-round-skipped": ReplicationEffect(its_requests, 2, 1, clusters=3),
    "skip-at-replicated-skips-one-more": ReplicationEffect(
        administering(Skip(TOPIC, SUBSCRIPTION, 1)), ["m0"], ["m0", "m1"]
    ),
    "snapshot-without-replicated-subscription": ReplicationEffect(
        beginning_for_nobody, False, True, is_replicated=False
    ),
    "snapshot-never-given-up": ReplicationEffect(answering_late, (True, False), (False, True)),
    "snapshot-of-second-round": ReplicationEffect(the_others_positions, 0, 1, clusters=3),
    "snapshot-too-early": ReplicationEffect(its_own_position, "at", "before"),
    "snapshot-too-late": ReplicationEffect(its_own_position, "at", "behind"),
    "snapshot-while-disconnected": ReplicationEffect(beginning_while_cut, False, True),
    "snapshot-without-new-message": ReplicationEffect(beginning_again, False, True),
    "update-of-another-cluster": ReplicationEffect(updating_two, 2, 1, clusters=3),
    "update-acknowledges-all": ReplicationEffect(updating, (True, ["m0"]), (True, ["m0", "m1"])),
    "update-unpublished": ReplicationEffect(acknowledging(1, "m0"), True, False),
}
"""For each of these defects, by its name, how its effect is observed."""
