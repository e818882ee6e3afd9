"""A connected replicator that replicates nothing breaks REPL-01; one stuck on a large message is a deviation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from model.cluster_events import LinkCut, LinkHealed, ReplicatorStalled
from model.cluster_operations import CatchUp, CutLink, HealLink
from model.deviations import DEVIATIONS
from model.deviations.replication import REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE
from model.events import Done
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, Unload
from model.replication.tracked import ClusterConsumer, Replication
from model.replication.tracker import Judged, judge
from model.vocabulary import Outcome
from tests.model.replication.test_small_logs import TOPIC, verdict

Step = tuple[AnyOperation, Outcome]

LARGE = replace(
    TOPIC,
    published={"A": ("a0", "big", "a1")},
    nearly_full=frozenset({"big"}),
    is_settled=True,
)
CUT: Step = (CutLink("A", "B"), LinkCut(100))
HEALED: Step = (HealLink("A", "B"), LinkHealed(200))


def unloaded(cluster: str) -> Step:
    return Unload("t", cluster=cluster), Done()


def judged(*messages: str, before: Iterable[Step] = (CUT,), known: frozenset[str] = frozenset()) -> Judged:
    """The verdict after a replicator was stuck before these messages, when some steps had happened ``before``."""
    consumer = ClusterConsumer(cluster="A", topic="t", subscription="sub")
    state = Replication(topics={"t": LARGE}, consumers={"k": consumer})
    for operation, outcome in before:
        found = judge(state, operation, outcome, known)
        assert isinstance(found, Allowed)
        state = found.state
    return judge(state, CatchUp("k", prefix="c"), ReplicatorStalled("A", "B", 30.0, messages), known)


@pytest.mark.parametrize("messages", [("a1",), ("a0", "big"), ()], ids=["behind it", "before it", "markers alone"])
def test_a_stuck_replicator_breaks_the_rule(messages: tuple[str, ...]) -> None:
    found = judged(*messages, known=frozenset({REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE}))
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", None)
    assert "the replicator of A to B was connected, but replicated nothing for 30 s" in found.because


def test_a_replicator_stuck_on_a_large_message_is_a_deviation() -> None:
    found = judged("big", "a1")
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE)


def test_after_the_known_deviation_the_example_continues_with_healed_links_and_nothing_settled() -> None:
    found = judged("big", "a1", known=frozenset({REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE}))
    assert isinstance(found, Allowed)
    assert (found.exercised, found.deviations) == (("REPL-01",), (REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE,))
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
    found = judged("big", "a1", before=before, known=frozenset(DEVIATIONS))
    assert verdict(found) == ((REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE,) if is_excused else ("REPL-01", None))
