"""Replicators that replicate nothing (REPL-01), and closed ones that are asked (REPL-17); which are deviations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from model.cluster_events import LinkCut, LinkHealed, ReplicatorStalled, SnapshotRequest, SnapshotResponse
from model.cluster_operations import CatchUp, CutLink, HealLink
from model.deviations import DEVIATIONS
from model.events import Abandoned, AnyOutcome, Done
from model.example import Example
from model.explain import judge as judge_example
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, Restart, Unload
from model.replication.tracked import ClusterConsumer, ReplicatedTopic, Replication
from model.service.unexpected import Overdue
from tests import verdicts
from tests.model.replication.before import after, sending
from tests.model.replication.test_small_logs import TIMEOUT_MS, TOPIC, TWO, Told, at, judged, verdict

Step = tuple[AnyOperation, AnyOutcome]

LARGE = replace(TOPIC, published={"A": ("a0", "big", "a1")}, is_settled=True)
CUT: Step = (CutLink("A", "B"), LinkCut(100))
HEALED: Step = (HealLink("A", "B"), LinkHealed(200))


def unloaded(cluster: str) -> Step:
    return Unload("t", cluster=cluster), Done()


def after_steps(topic: ReplicatedTopic, before: Iterable[Step], known: frozenset[str]) -> Example:
    """The state when a large message was sent, and then these steps happened."""
    consumers = {"k": ClusterConsumer(cluster="A", topic="t", subscription="sub")}
    replication = Replication(topics={"t": topic}, consumers=consumers)
    state = replace(after(sending("big"), known=known), replication=replication)
    found = verdicts.judged(*before, start=state)
    assert isinstance(found, Allowed), found
    return found.state


def stalled(
    *messages: str, before: Iterable[Step] = (CUT,), known: frozenset[str] = frozenset()
) -> Allowed[Replication] | Broken:
    """The verdict after a replicator was stuck before these messages, when some steps had happened ``before``."""
    seen = ReplicatorStalled("A", "B", 30.0, messages)
    found = judge_example(after_steps(LARGE, before, known), CatchUp("k", prefix="c"), seen)
    return found if isinstance(found, Broken) else found.of(found.state.replication)


def late(topic: ReplicatedTopic, before: Iterable[Step], overdue: Overdue) -> Broken:
    """What it breaks that something is overdue when clusters catch up, after some steps."""
    happened = CatchUp("k", prefix="c"), Abandoned("late")
    broken = judge_example(after_steps(topic, before, frozenset()), *happened, unexpected=(overdue,))
    assert isinstance(broken, Broken)
    return broken


@pytest.mark.parametrize("messages", [("a1",), ("a0", "big"), ()], ids=["behind it", "before it", "markers alone"])
def test_a_stuck_replicator_breaks_the_rule(messages: tuple[str, ...]) -> None:
    found = stalled(*messages, known=frozenset({"replicator-stuck-on-too-large-message"}))
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", None)
    assert "the replicator of A to B was connected, but replicated nothing for 30 s" in found.because


def test_a_replicator_stuck_on_a_large_message_is_a_deviation() -> None:
    found = stalled("big", "a1")
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", "replicator-stuck-on-too-large-message")


def test_after_the_known_deviation_the_example_continues_with_healed_links_and_nothing_settled() -> None:
    found = stalled("big", "a1", known=frozenset({"replicator-stuck-on-too-large-message"}))
    assert isinstance(found, Allowed)
    assert verdict(found) == ("replicator-stuck-on-too-large-message",)
    assert "REPL-01" in found.excused
    assert "REPL-01" not in found.exercised
    topic = found.state.topics["t"]
    assert not topic.is_settled
    assert topic.cut == {("A", "B"): ()}


@pytest.mark.parametrize(
    ("before", "is_excused"),
    [
        ((CUT,), True),
        ((CUT, HEALED), True),
        ((unloaded("B"),), True),
        ((CUT, unloaded("A"), HEALED), True),
        ((), False),
        ((CUT, HEALED, unloaded("A")), False),
        ((unloaded("A"),), False),
    ],
    ids=["cut", "healed", "reloaded there", "reloaded while cut", "never interrupted", "reloaded since", "reloaded"],
)
def test_a_replicator_is_stuck_on_a_large_message_only_after_it_reconnects(
    before: tuple[Step, ...], is_excused: bool
) -> None:
    found = stalled("big", "a1", before=before, known=frozenset(DEVIATIONS))
    assert verdict(found) == (("replicator-stuck-on-too-large-message",) if is_excused else ("REPL-01", None))


ASLEEP: dict[str, list[Told]] = {
    "A": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("A", SnapshotRequest("s2", "A"))],
    "B": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("A", SnapshotRequest("s2", "A"))],
}
"""B receives two requests and responds to neither."""
IDLE = replace(TOPIC, is_settled=False, closed={"B": -100})


def times_of_both(second_ms: int) -> dict[str, dict[int, int]]:
    return {label: {1: 300, 2: second_ms} for label in "AB"}


def test_a_cluster_whose_replicator_is_closed_responds_all_the_same() -> None:
    found = judged(TWO, topic=IDLE, closed=())
    assert isinstance(found, Allowed)
    assert "REPL-17" in found.exercised


def test_a_closed_replicator_that_reads_no_request_before_the_timeout_is_a_deviation() -> None:
    found = judged(ASLEEP, topic=IDLE, cursors={}, closed=(("B", "A"),), all_times_ms=times_of_both(300 + TIMEOUT_MS))
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-17", "closed-replicator-reads-no-request")
    assert found.because.startswith("B did not respond to the request of A at 2:1 before A gave up")


@pytest.mark.parametrize(
    ("topic", "closed", "second_ms"),
    [
        (IDLE, (("B", "A"),), 299 + TIMEOUT_MS),
        (IDLE, (), 300 + TIMEOUT_MS),
        (replace(IDLE, closed={}), (("B", "A"),), 300 + TIMEOUT_MS),
        (replace(IDLE, closed={"B": 300 + TIMEOUT_MS}), (("B", "A"),), 300 + TIMEOUT_MS),
    ],
    ids=["it is waited for still", "it was opened", "it was never closed", "it was asked before"],
)
def test_a_response_that_may_still_arrive_is_not_judged(
    topic: ReplicatedTopic, closed: tuple[tuple[str, str], ...], second_ms: int
) -> None:
    found = judged(ASLEEP, topic=topic, cursors={}, closed=closed, all_times_ms=times_of_both(second_ms))
    assert isinstance(found, Allowed)
    assert "REPL-17" not in found.exercised


def test_a_closed_replicator_that_reads_a_later_request_has_no_excuse_for_an_earlier_one() -> None:
    answer: Told = ("B", SnapshotResponse("s2", "B", at("B", 2)))
    answered = {label: [*entries, answer] for label, entries in ASLEEP.items()}
    known, times_ms = frozenset(DEVIATIONS), times_of_both(300 + TIMEOUT_MS)
    for logs, is_excused in ((ASLEEP, True), (answered, False)):
        found = judged(logs, topic=IDLE, cursors={}, closed=(("B", "A"),), all_times_ms=times_ms, known=known)
        assert verdict(found) == (("closed-replicator-reads-no-request",) if is_excused else ("REPL-17", None))


@pytest.mark.parametrize(
    ("before", "is_explained"),
    [
        ((CUT, HEALED, unloaded("A")), True),
        ((CUT, unloaded("A"), HEALED), True),
        ((CUT, HEALED, unloaded("A"), (Restart(cluster="A"), Done())), False),
        ((unloaded("A"), CUT, HEALED), False),
        ((CUT, HEALED, unloaded("B")), False),
        ((unloaded("A"),), False),
    ],
)
def test_replicators_stay_disconnected_by_a_deviation_only_after_an_unload_of_a_topic_whose_link_was_cut(
    before: tuple[Step, ...], is_explained: bool
) -> None:
    found = late(LARGE, before, Overdue("SERVE-02", "the replicators of t do not connect within 60 s"))
    assert (found.rule, found.deviation) == ("SERVE-02", "orphan-replicator-keeps-name" if is_explained else None)


@pytest.mark.parametrize(
    ("before", "deduplication", "is_explained"),
    [
        ((CUT, HEALED), True, True),
        ((unloaded("A"),), True, True),
        ((unloaded("B"),), True, True),
        ((CUT, HEALED), False, False),
        ((), True, False),
    ],
    ids=["cut", "reloaded", "reloaded there", "without deduplication", "nothing happened"],
)
def test_a_replicator_sends_in_a_loop_by_a_deviation_only_what_it_sends_again_with_deduplication(
    before: tuple[Step, ...], *, deduplication: bool, is_explained: bool
) -> None:
    overdue = Overdue("SERVE-03", "messages of t are not replicated within 60 s")
    found = late(replace(LARGE, deduplication=deduplication), before, overdue)
    assert (found.rule, found.deviation) == ("SERVE-03", "replicator-resends-in-a-loop" if is_explained else None)
    other = late(replace(LARGE, deduplication=deduplication), before, Overdue("SERVE-03", "messages of t are lost"))
    assert other.deviation is None
