"""Unequal clusters keep what REPL-20 names: replication one way, lost clusters, restricted messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import (
    CaughtUp,
    ClusterCursor,
    LinkCut,
    LinkHealed,
    ReplicatorStalled,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.cluster_operations import CatchUp, LoseCluster, ReadClusters, RecoverCluster
from model.deduplication.topic_observer import TopicView
from model.events import Acknowledged, Delivery, Done, ReceivedMessages, Skipped
from model.example import Example
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, Unload
from model.replication.example_end import winding_up_clusters
from model.replication.tracked import ClusterConsumer, ReplicatedTopic, Replication
from model.replication.tracker import judge
from model.subscription_operations import AckById, Receive, Subscribe
from model.vocabulary import Outcome
from tests import verdicts
from tests.model.replication.before import Before, reloading, sending
from tests.model.replication.test_small_logs import (
    CURSORS,
    THREE,
    TOPIC,
    Told,
    at,
    broken,
    deviates,
    judged,
    replace_clusters,
    verdict,
)

CHAIN = replace(
    TOPIC,
    made=replace_clusters(TOPIC, ("A", "B", "C")),
    only_links=frozenset({("A", "B"), ("B", "C")}),
    published={"A": ("a0",), "B": ("b0",)},
    acknowledged_at={},
    own={("sub", "A"): True},
)
"""Messages go from A to B and from B to C, and nobody sends anything back."""
LOGS: dict[str, list[Told]] = {
    "A": [("A", "a0"), ("A", SnapshotRequest("s", "A"))],
    "B": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("B", "b0")],
    "C": [("B", "b0")],
}


def test_each_cluster_has_its_own_messages_and_those_of_the_clusters_that_replicate_to_it() -> None:
    verdict = judged(LOGS, topic=replace(CHAIN, is_settled=True), cursors={})
    assert isinstance(verdict, Allowed), verdict
    assert {"REPL-01", "REPL-18", "REPL-20"} <= set(verdict.exercised)


@pytest.mark.parametrize(
    ("cluster", "message"), [("A", ("B", "b0")), ("C", ("A", "a0"))], ids=["sent back", "passed on"]
)
def test_no_message_goes_where_its_cluster_does_not_replicate_to(cluster: str, message: Told) -> None:
    rule, because = broken(judged({**LOGS, cluster: [*LOGS[cluster], message]}, topic=CHAIN, cursors={}))
    assert rule == "REPL-01"
    assert "which does not replicate to it" in because


def test_a_message_that_a_link_should_have_replicated_is_missed() -> None:
    assert broken(judged({**LOGS, "C": []}, topic=replace(CHAIN, is_settled=True), cursors={}))[0] == "REPL-01"


def test_equal_clusters_exercise_nothing_of_unequal_ones() -> None:
    verdict = judged(THREE, topic=replace(CHAIN, only_links=None), cursors={})
    assert isinstance(verdict, Broken) or "REPL-20" not in verdict.exercised


def test_a_snapshot_has_a_response_of_each_cluster_that_its_own_replicates_to() -> None:
    asked: list[Told] = [("A", "a0"), ("A", SnapshotRequest("s", "A"))]
    response: Told = ("B", SnapshotResponse("s", "B", at("B", 1)))
    taken: Told = ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 1)}))
    there_and_back = frozenset({("A", "B"), ("B", "A")})
    published = {"A": ("a0",)}
    logs: dict[str, list[Told]] = {"A": [*asked, response, taken], "B": [*asked, response], "C": []}
    of_b = replace(CHAIN, only_links=there_and_back, published=published)
    assert isinstance(judged(logs, topic=of_b, cursors={}), Allowed)
    of_both = replace(of_b, only_links=there_and_back | {("A", "C")})
    rule, because = broken(judged({**logs, "C": asked}, topic=of_both, cursors={}))
    assert (rule, "no position of C" in because) == ("REPL-09", True)


def test_a_cluster_that_replicates_to_none_writes_no_marker() -> None:
    logs: dict[str, list[Told]] = {**LOGS, "C": [("B", "b0"), ("C", SnapshotRequest("c", "C"))]}
    with_own = replace(CHAIN, own={("sub", "A"): True, ("sub", "C"): True})
    cursors = {"C": ClusterCursor(subscription="sub", mark_delete=at("C", -1))}
    rule, because = broken(judged(logs, topic=with_own, cursors=cursors))
    assert (rule, "the log of C has 1 markers" in because) == ("REPL-18", True)
    verdict = judged(logs, topic=with_own, cursors=cursors, known=frozenset({"request-without-remote-cluster"}))
    assert isinstance(verdict, Allowed)
    assert isinstance(judged(logs, topic=CHAIN, cursors={}), Broken)


def test_a_subscription_comes_only_to_clusters_that_others_replicate_to() -> None:
    there = {label: ClusterCursor(subscription="sub", mark_delete=at(label, -1)) for label in "AB"}
    assert isinstance(judged(LOGS, topic=CHAIN, cursors=there), Allowed)
    by_b = replace(CHAIN, own={("sub", "B"): True})
    assert broken(judged(LOGS, topic=by_b, cursors=there))[0] == "REPL-18"


def test_a_catch_up_acknowledges_only_what_came_to_its_cluster() -> None:
    consumer = ClusterConsumer(cluster="B", topic="t", subscription="sub")
    state = Replication(topics={"t": CHAIN}, consumers={"k": consumer})
    caught = judge(state, CatchUp("k", prefix="c"), CaughtUp(0.0, ("c0",)))
    assert isinstance(caught, Allowed)
    topic: ReplicatedTopic = caught.state.topics["t"]
    assert topic.acknowledged("sub") == {"a0", "b0", "c0"}
    assert caught.exercised == (), "nobody follows B"
    at_c = judge(
        Replication(topics={"t": CHAIN}, consumers={"k": replace(consumer, cluster="C")}),
        CatchUp("k", prefix="c"),
        CaughtUp(0.0, ()),
    )
    assert isinstance(at_c, Allowed)
    assert at_c.state.topics["t"].acknowledged("sub") == {"b0"}


def test_messages_from_around_a_change_of_a_link_may_or_may_not_come() -> None:
    """c0 was published before A replicated to C, d0 after; b0 before B no longer did."""
    changed = CHAIN.with_link(("B", "C"), on=False).with_link(("A", "C"), on=True).with_published("A", ("d0",))
    changed = replace(changed, is_settled=True)
    a, b = [*LOGS["A"], ("A", "d0")], [*LOGS["B"], ("A", "d0")]
    for came in ([("A", "d0")], [("A", "a0"), ("A", "d0")], [("B", "b0"), ("A", "d0")]):
        verdict = judged({"A": a, "B": b, "C": came}, topic=changed, cursors={})
        assert isinstance(verdict, Allowed), verdict
        assert "REPL-20" in verdict.exercised
    for wrong in ([("A", "a0")], [("A", "d0"), ("A", "a0")], [("A", "d0"), ("A", "d0")]):
        assert broken(judged({"A": a, "B": b, "C": wrong}, topic=changed, cursors={}))[0] == "REPL-01"


LOST = replace(
    TOPIC, made=replace_clusters(TOPIC, ("A", "B", "C")), own={("sub", "A"): True}, acknowledged_at={}, is_settled=False
)
"""Three equal clusters."""


def in_turn(topic: ReplicatedTopic, *happened: tuple[AnyOperation, Outcome]) -> Replication:
    consumers = {"k": ClusterConsumer(cluster="C", topic="t", subscription="sub")}
    state = Replication(topics={"t": topic}, consumers=consumers)
    for operation, outcome in happened:
        after = judge(state, operation, outcome)
        assert isinstance(after, Allowed)
        state = after.state
    return state


def test_a_lost_cluster_is_judged_again_once_it_is_back() -> None:
    lost = in_turn(LOST, (LoseCluster("C"), LinkCut(100)))
    topic = lost.topics["t"]
    assert (dict(topic.lost), sorted(topic.killed), list(lost.consumers)) == ({"C": "kill"}, ["C"], [])
    assert topic.cut == {("A", "C"): ((100, None),), ("B", "C"): ((100, None),)}
    back = in_turn(LOST, (LoseCluster("C"), LinkCut(100)), (RecoverCluster("C"), LinkHealed(900))).topics["t"]
    assert (dict(back.lost), back.cut["A", "C"]) == ({}, ((100, 900),))
    thawed = in_turn(LOST, (LoseCluster("C", "freeze"), Done()), (RecoverCluster("C"), LinkHealed(900))).topics["t"]
    assert (dict(thawed.lost), dict(thawed.cut), thawed.killed) == ({}, {}, frozenset())


def test_what_is_left_of_the_clusters_keeps_its_rules() -> None:
    gone = replace(LOST, lost={"C": "kill"}, published={"A": ("a0",)})
    logs: dict[str, list[Told]] = {"A": [("A", "a0")], "B": [("A", "a0")], "C": []}
    verdict = judged(logs, topic=gone, cursors={})
    assert isinstance(verdict, Allowed)
    assert "REPL-20" in verdict.exercised
    assert broken(judged({**logs, "B": [("A", "a1")]}, topic=gone, cursors={}))[0] == "REPL-01"
    ahead = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 0))}
    assert broken(judged(logs, topic=gone, cursors=ahead))[0] == "REPL-14"
    begun: dict[str, list[Told]] = {**logs, "A": [("A", "a0"), ("A", SnapshotRequest("s", "A"))]}
    unconnected = replace(gone, cut={("A", "C"): ((1, None),)})
    rule, _ = broken(judged(begun, topic=unconnected, cursors={}, times_ms={0: 2, 1: 10}, at_ms=99))
    assert rule == "REPL-03"


def test_replication_between_the_clusters_that_are_left_goes_on() -> None:
    state = Replication(topics={"t": replace(LOST, lost={"C": "kill"})})
    stalled = ReplicatorStalled("A", "B", 30.0, ("a0",))
    assert broken(judge(state, ReadClusters("t"), stalled))[0] == "REPL-01"


def test_snapshots_are_not_judged_while_a_cluster_is_lost() -> None:
    """The log of the lost cluster ends before it was lost, and others may have more of its responses."""
    in_one_round = {**THREE, "A": [entry for number, entry in enumerate(THREE["A"]) if number != 4]}
    topic = replace(LOST, published={"A": ("a0",)})
    assert broken(judged(in_one_round, topic=topic, cursors={}))[0] == "REPL-09"
    assert isinstance(judged(in_one_round, topic=replace(topic, lost={"C": "kill"}), cursors={}), Allowed)


ONLY_IN_B: dict[str, list[Told]] = {
    "A": [
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 2))),
        ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 2)})),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 2)})),
    ],
    "B": [
        ("B", "b0"),
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 2))),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 2)})),
        ("B", "b1"),
    ],
}
"""b0 and b1 stay in B. The update of A passes b0."""

RESTRICTED = replace(
    TOPIC,
    published={"A": ("a0",), "B": ("b0", "b1")},
    restricted={"b0": frozenset({"B"}), "b1": frozenset({"B"})},
    is_settled=False,
)


def test_an_update_may_pass_only_messages_that_its_source_may_not_have() -> None:
    cursors = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 2))}
    because = deviates("REPL-14", "update-passes-restricted-messages", ONLY_IN_B, topic=RESTRICTED, cursors=cursors)
    assert because.startswith("B has b0 as acknowledged")
    known = frozenset({"update-passes-restricted-messages"})
    further = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 5))}
    created_before = replace(RESTRICTED, own={("sub", "B"): True})
    after_the_update = judged(ONLY_IN_B, topic=created_before, cursors=further, known=known)
    may_be_there = replace(RESTRICTED, restricted={"b0": frozenset({"A", "B"}), "b1": frozenset({"B"})})
    at_its_source = judged(ONLY_IN_B, topic=may_be_there, cursors=cursors, known=known)
    chain, logs = replace(RESTRICTED, restricted={}, only_links=CHAIN.only_links), {**ONLY_IN_B, "C": list[Told]()}
    assert deviates("REPL-14", "update-passes-restricted-messages", logs, topic=chain, cursors=cursors) == because
    both_ways = judged(logs, topic=replace(chain, only_links=None), cursors=cursors, known=known)
    for found in (after_the_update, at_its_source, both_ways):
        assert isinstance(found, Broken)
        assert (found.rule, found.deviation) == ("REPL-14", None)


def test_each_missed_message_needs_a_deviation_of_its_own() -> None:
    """The update passes b0, which A may not have; B created the subscription at its end, and skipped b1."""
    further = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 5))}
    both = frozenset({"update-passes-restricted-messages", "update-creates-at-latest"})
    assert isinstance(judged(ONLY_IN_B, topic=RESTRICTED, cursors=further, known=both), Allowed)
    for known in both:
        found = judged(ONLY_IN_B, topic=RESTRICTED, cursors=further, known=frozenset({known}))
        assert isinstance(found, Broken)
        assert {found.deviation} == both - {known}


def test_the_logs_of_clusters_may_show_four_deviations() -> None:
    """Besides both of these, A began its snapshot while it loaded the topic and B was cut off, and big is not sent."""
    logs = {"A": [*ONLY_IN_B["A"], ("A", "big"), ("A", "a2")], "B": [*ONLY_IN_B["B"], ("A", "a2")]}
    published = {**RESTRICTED.published, "A": ("a0", "big", "a2")}
    topic = replace(RESTRICTED, published=published, cut={("A", "B"): ((100, 5000),)})
    cursors = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 5))}
    names = {
        "update-passes-restricted-messages",
        "update-creates-at-latest",
        "request-before-replicator-exists",
        "too-large-to-replicate",
    }
    before = [reloading("A", "a0", "b0", "b1"), sending("big")]
    found = judged(logs, topic=topic, cursors=cursors, known=frozenset(names), before=before)
    assert verdict(found) == tuple(sorted(names))
    for name in names:
        without = judged(logs, topic=topic, cursors=cursors, known=frozenset(names - {name}), before=before)
        assert isinstance(without, Broken)
        assert without.deviation == name


EMPTIED: dict[str, list[Told]] = {
    "A": [
        ("A", "a0"),
        ("C", SnapshotRequest("s", "C")),
        ("A", SnapshotResponse("s", "A", at("A", 1))),
        ("A", "a1"),
        ("C", SubscriptionUpdated("sub", {"A": at("A", 1)})),
    ],
    "B": [("A", "a0"), ("A", "a1")],
    "C": [
        ("C", SnapshotRequest("s", "C")),
        ("A", SnapshotResponse("s", "A", at("A", 1))),
        ("A", "a1"),
        ("C", SubscriptionUpdated("sub", {"A": at("A", 1)})),
    ],
}
"""C had a0 before it lost its data. The update that it publishes after its return (1200 ms) passes a0 at A."""
BEFORE = replace(LOST, published={"A": ("a0",)}, own={("sub", "A"): True, ("sub", "B"): True})
BACK: Before = (BEFORE, RecoverCluster("C", is_empty=True), LinkHealed(1000))


def test_an_update_of_an_emptied_cluster_may_pass_only_what_it_lost() -> None:
    cursors = {"A": ClusterCursor(subscription="sub", mark_delete=at("A", 2))}
    back = BEFORE.without_data_of("C").with_published("A", ("a1",))
    because = deviates("REPL-14", "update-passes-lost-messages", EMPTIED, topic=back, cursors=cursors, before=[BACK])
    assert because.startswith("A has a0 as acknowledged")
    known = frozenset({"update-passes-lost-messages", "update-passes-restricted-messages"})
    later = (BEFORE, BACK[1], LinkHealed(1500))
    updated_before = judged(EMPTIED, topic=back, cursors=cursors, known=known, before=[later])
    lost_nothing = replace(back, emptied={"C": frozenset()})
    came_later = judged(EMPTIED, topic=lost_nothing, cursors=cursors, known=known, before=[BACK])
    again: dict[str, list[Told]] = {**EMPTIED, "C": [("A", "a0"), *EMPTIED["C"]]}
    came_again = judged(again, topic=back, cursors=cursors, known=known, before=[BACK])
    beyond = {"A": ClusterCursor(subscription="sub", mark_delete=at("A", 4))}
    too_far = judged(EMPTIED, topic=back, cursors=beyond, known=known, before=[BACK])
    for found in (updated_before, came_later, came_again, too_far):
        assert isinstance(found, Broken)
        assert (found.rule, found.deviation) == ("REPL-14", None)


def test_what_an_emptied_cluster_had_may_be_gone_but_not_what_the_others_had() -> None:
    """c0 was published at C before the loss, c1 after it."""
    back = replace(BEFORE.with_published("C", ("c0",)).without_data_of("C").with_published("C", ("c1",)), own={})
    back = replace(back, is_settled=True)
    logs: dict[str, list[Told]] = {"A": [("A", "a0"), ("C", "c1")], "B": [("A", "a0"), ("C", "c1")], "C": [("C", "c1")]}
    for of_a in (logs["A"], [("A", "a0"), ("C", "c0"), ("C", "c1")]):
        verdict = judged({**logs, "A": of_a}, topic=back, cursors={})
        assert isinstance(verdict, Allowed), verdict
        assert {"REPL-01", "REPL-20"} <= set(verdict.exercised)
    for of_b in ([("C", "c1")], [("A", "a0")], [("A", "a0"), ("C", "c1"), ("C", "c1")]):
        assert broken(judged({**logs, "B": of_b}, topic=back, cursors={}))[0] == "REPL-01"
    assert broken(judged({**logs, "C": []}, topic=back, cursors={}))[0] == "REPL-01", "c1 is from after the loss"


@pytest.mark.parametrize(("message", "is_explained"), [("c0", True), ("b0", False)])
def test_an_update_of_another_cluster_may_pass_what_the_emptied_one_published(message: str, is_explained: bool) -> None:
    """B has a message from before the loss of C that A does not have, and an update of A passes it."""
    published = {"A": ("a0",), "B": ("b0",), "C": ("c0",)}
    back = replace(BEFORE, published=published).without_data_of("C")
    requests: list[Told] = [("A", SnapshotRequest(name, "A")) for name in "stu"]
    logs: dict[str, list[Told]] = {
        "A": [("A", "a0"), *requests, ("A", SubscriptionUpdated("sub", {"B": at("B", 0)}))],
        "B": [(message[0].upper(), message)],
        "C": [],
    }
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 0))}
    known = frozenset({"update-passes-restricted-messages"})
    found = judged(logs, topic=back, cursors=cursors, known=known, before=[BACK])
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-14", "update-passes-lost-messages" if is_explained else None)


def test_a_cluster_comes_back_empty_only_as_far_as_it_did() -> None:
    lost = (LoseCluster("C"), LinkCut(100))
    back = in_turn(LOST, lost, (RecoverCluster("C", is_empty=True), LinkHealed(900))).topics["t"]
    assert (dict(back.lost), dict(back.emptied)) == ({}, {"C": frozenset({"a0"})})
    still = in_turn(LOST, lost, (RecoverCluster("C", is_empty=True), Skipped("it cannot"))).topics["t"]
    assert (dict(still.lost), dict(still.emptied)) == ({"C": "kill"}, {})
    there = in_turn(LOST, (LoseCluster("C"), Skipped("it cannot"))).topics["t"]
    assert dict(there.lost) == {}


def test_the_catch_up_at_the_end_is_at_a_cluster_that_kept_its_data() -> None:
    at_c = replace(LOST.without_data_of("C"), own={("sub", "C"): True, ("sub", "B"): True})
    last = [
        operation
        for operation in winding_up_clusters(lambda: Replication(topics={"t": at_c}), "t")
        if isinstance(operation, Subscribe)
    ]
    assert [one.cluster for one in last] == ["B"]


def test_an_emptied_cluster_knows_no_producer() -> None:
    view = TopicView(enabled=True, snapshot_room=6, last_position=at("C", 3))
    state = Replication(topics={"t": replace(LOST, lost={"C": "kill"})}, views={("t", "C"): view, ("t", "A"): view})
    after = judge(state, RecoverCluster("C", is_empty=True), LinkHealed(900))
    assert isinstance(after, Allowed)
    assert (after.state.views["t", "C"].last_position, after.state.views["t", "A"].last_position) == (None, at("C", 3))


@pytest.mark.parametrize("known", ["update-passes-lost-messages", "update-passes-restricted-messages"])
def test_of_two_deviations_that_explain_a_message_one_needs_to_be_known(known: str) -> None:
    """C lost its data, and a0 was not for C in any case."""
    back = replace(BEFORE.without_data_of("C"), restricted={"a0": frozenset("AB")}).with_published("A", ("a1",))
    cursors = {"A": ClusterCursor(subscription="sub", mark_delete=at("A", 2))}
    found = judged(EMPTIED, topic=back, cursors=cursors, known=frozenset({known}), before=[BACK])
    assert isinstance(found, Allowed)
    assert verdict(found) == (known,)


@pytest.mark.parametrize(("number", "acknowledged"), [(1, {"a0", "a1"}), (2, {"a0", "a1", "a2"})])
def test_a_cumulative_ack_acknowledges_messages_whose_first_copy_it_passes(number: int, acknowledged: set[str]) -> None:
    """Seen on 4.0.8: a killed cluster sent a0 again, behind a2 and after a1 was acknowledged cumulatively."""
    state = Replication(
        topics={"t": replace(LOST, published={"A": ("a0", "a1", "a2")})},
        consumers={"k": ClusterConsumer(cluster="B", topic="t", subscription="sub")},
    )
    stored = ("a0", "a1", "a2", "a0")
    given = tuple(Delivery(at("B", index), -1, 0, message) for index, message in enumerate(stored))
    for operation, outcome in (
        (Receive("k", 100), ReceivedMessages(given[:3])),
        (Receive("k", 100), ReceivedMessages(given[3:])),
        (AckById("k", (f"a{number}",), cumulative=True), Acknowledged(given[number : number + 1], begun_ms=1)),
    ):
        after = judge(state, operation, outcome)
        assert isinstance(after, Allowed), after
        state = after.state
    assert state.topics["t"].acknowledged("sub") == acknowledged
    assert ("a0", at("B", 3)) in state.consumers["k"].unacknowledged


def test_a_replicator_may_give_up_only_a_cluster_that_it_reached_without_the_namespace() -> None:
    early = RecoverCluster("C", is_empty=True, is_reached_early=True)
    given_up, connected = LinkHealed(900, ("A", "B")), LinkHealed(900)
    lost = LoseCluster("C"), LinkCut(100)
    name = "namespace-not-found-ends-replication"
    start = Example(replication=Replication(topics={"t": LOST}))

    def recovered(
        *before: verdicts.Happened, how: RecoverCluster = early, seen: LinkHealed = given_up
    ) -> verdicts.Verdict:
        found = verdicts.judged(*before, (how, seen), start=start)
        known = verdicts.judged(*before, (how, seen), start=replace(start, known=frozenset({name})))
        if isinstance(found, Broken):
            assert found.rule == "REPL-01"
            assert isinstance(known, Allowed) == (found.deviation == name)
        return found

    assert deviation_of(recovered(lost)) == name
    for late in (RecoverCluster("C", is_empty=True), RecoverCluster("C")):
        assert deviation_of(recovered(lost, how=late)) is None
    of_b: verdicts.Happened = Unload("t", cluster="B"), Done()
    assert deviation_of(recovered(lost, of_b, seen=LinkHealed(900, ("A",)))) == name
    assert deviation_of(recovered(lost, of_b)) is None, "the one of B was never connected"
    assert deviation_of(recovered(lost, of_b, (RecoverCluster("C"), connected), lost)) == name
    sound = recovered(lost, seen=connected)
    assert isinstance(sound, Allowed)
    assert "REPL-20" in sound.exercised


def deviation_of(found: verdicts.Verdict) -> str | None:
    assert isinstance(found, Broken), found
    return found.deviation
