"""The explorations of document 000: what they find, to the number, and that nothing in them is idle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from model.explorations import dedup, explorations
from model.explorations.dedup_world import Setup, Step, World, merge
from model.explore import Exploration, NamedExploration, explore
from model.variants import VARIANTS, Origin

RULES = {f"DEDUP-{number:02}" for number in range(1, 16)}
"""What one topic and its producers can show; DEDUP-16 to -18 are about consumers."""

FOUND = {
    "crashes": (31537, 190553),
    "failed-writes": (21115, 70846),
    "everything": (2903, 14494),
    "batches": (245, 958),
    "no-replay": (875, 3716),
    "switched-off": (407, 608),
    "switched": (2665, 4934),
    "room-for-one": (4061, 21825),
    "other-batches": (230, 660),
}
"""States and transitions: whoever changes them changes what is explored, and should know."""

ONCE = "no message is stored twice"
IN_ORDER = "messages are stored in the order of their source, none is left out"
KEPT = "what is confirmed is stored"

BREAKS = {
    "judged-when-off": ("with deduplication off, whatever is sent is stored", 4),
    "no-check": (ONCE, 5),
    "strict-less-than": (ONCE, 5),
    "overlapping-batch-dropped": (KEPT, 5),
    "batch-end-unsent": (ONCE, 6),
    "shared-maps": (KEPT, 5),
    "duplicate-refused": ("an id at or below persisted, and no other, is confirmed without being stored", 5),
    "unknown-confirmed": (KEPT, 4),
    "unknown-stored": (ONCE, 5),
    "reset-on-unknown": (ONCE, 7),
    "persisted-before-write": (KEPT, 4),
    "pushed-after-write": (ONCE, 5),
    "switched-on-in-flight": (
        "an id at or below persisted, and no other, is confirmed without being stored",
        6,
    ),
    "no-reset-after-failure": (IN_ORDER, 7),
    "sessions-survive-failure": (IN_ORDER, 5),
    "later-writes-succeed": (IN_ORDER, 5),
    "failed-write-stored": (ONCE, 6),
    "pending-id-told": (IN_ORDER, 7),
    "snapshot-of-pushed": (KEPT, 6),
    "snapshot-not-cut": ("a snapshot holds no more producers than it may", 7),
    "snapshot-position-ahead": (ONCE, 7),
    "failed-snapshot-forgets": (ONCE, 7),
    "recovery-without-replay": (ONCE, 6),
    "replay-skips-one": (ONCE, 6),
    "replay-counts-lowest": (ONCE, 7),
    "inactive-forgotten": (ONCE, 7),
}
"""For each variant what it breaks first of what matters most, and in how many steps."""

DOCUMENT = {named.name: named for named in dedup.EXPLORED.of_document()}
HOLDING = [name for name, named in DOCUMENT.items() if named.must_hold]


@cache
def explored(name: str) -> Exploration[World, Step]:
    named: NamedExploration[World, Step] = DOCUMENT[name] if name in DOCUMENT else explorations(name)[0]
    return named.run()


def broken(found: Exploration[World, Step]) -> dict[str, int]:
    """What does not hold, and the length of the shortest way there."""
    return {c.broken.says: len(c.path.labels) for c in found.counterexamples}


def words(name: str, says: str) -> list[str]:
    """The shortest counterexample, in words."""
    (path,) = [c.path for c in explored(name).counterexamples if c.broken.says == says]
    return [str(label) for label in path.labels]


@pytest.mark.parametrize("name", HOLDING)
def test_every_rule_holds_in_every_state_and_a_good_ending_stays_within_reach(name: str) -> None:
    found = explored(name)
    assert broken(found) == {}
    assert found.unexercised == ()
    assert found.dead_end is None
    assert found.holds


def test_at_most_those_that_cannot_promise_it_are_without_a_good_ending() -> None:
    assert {name for name in DOCUMENT if not explored(name).knows_endings} == {"switched-off", "switched"}


def test_the_numbers_of_states_and_transitions_are_these() -> None:
    assert {name: (explored(name).states, explored(name).transitions) for name in DOCUMENT} == FOUND


def test_the_graph_has_all_states_and_says_what_leads_from_one_to_the_other() -> None:
    found = explored("everything")
    assert found.graph.number_of_nodes() == found.states
    told = [edge["words"] for _, _, edge in found.graph.edges(data=True)]
    assert sum(len(words.splitlines()) for words in told) == found.transitions


def test_every_kind_of_step_that_there_is_room_for_happens() -> None:
    assert {name: explored(name).untaken for name in DOCUMENT if explored(name).untaken} == {}


def test_what_a_snapshot_has_no_room_for_is_forgotten_in_a_crash_and_stored_twice() -> None:
    assert words("room-for-one", ONCE)[-5:] == [
        "a snapshot is taken behind entry 2: A 1",
        "the broker crashes and recovers",
        "B dies, starts anew and is told of no id",
        "B sends 1 (b0): it is new",
        "B's 1 (b0) is stored, confirmed",
    ]


def test_a_source_that_is_replayed_in_other_batches_loses_messages() -> None:
    assert broken(explored("other-batches")) == {IN_ORDER: 7}


def test_every_variant_breaks_something_and_this_is_the_shortest_way() -> None:
    lengths = {name: broken(explored(name)) for name in BREAKS}
    assert {name: lengths[name].get(says) for name, (says, _) in BREAKS.items()} == {
        name: steps for name, (_, steps) in BREAKS.items()
    }
    assert set(BREAKS) == {named.name for named in VARIANTS}


def test_every_statement_can_be_broken_and_together_they_stand_for_every_rule() -> None:
    stated = {s.says: s.rules for name in DOCUMENT for s in explored(name).statements}
    refuted = {says for named in VARIANTS for says in broken(explored(named.name))}
    never_refuted = set(stated) - refuted
    assert never_refuted == {"a producer's messages are stored in its order"}
    assert {rule for rules in stated.values() for rule in rules} == RULES


def test_persisted_raised_before_the_write_confirms_what_is_not_stored() -> None:
    assert words("persisted-before-write", KEPT) == [
        "A connects and is told of no id",
        "A sends 1 (a0): it is new",
        "A reconnects and is told 1",
        "A sends 1 (a0) again: confirmed as a duplicate",
    ]


def test_recovery_without_replay_stores_a_message_twice() -> None:
    assert words("recovery-without-replay", ONCE) == [
        "A connects and is told of no id",
        "A sends 1 (a0): it is new",
        "the broker crashes and recovers; of 1 in flight 1 reached the log",
        "A connects and is told of no id",
        "A sends 1 (a0) again: it is new",
        "A's 1 (a0) is stored, confirmed",
    ]


def test_without_the_reset_the_message_whose_write_failed_is_overtaken_and_never_stored() -> None:
    found = explored("no-reset-after-failure")
    assert found.dead_end is not None
    assert words("no-reset-after-failure", IN_ORDER)[-3:] == [
        "A sends 1 (a0) again: of unknown status, an error",
        "A sends 3 (a1): it is new",
        "A's 3 (a1) is stored, confirmed",
    ]


def test_what_releases_do_comes_with_the_place_in_their_code() -> None:
    assert all((named.origin is Origin.RELEASE) == bool(named.code) for named in VARIANTS)


def test_merging_states_hides_none() -> None:
    setup = Setup(sources=(dedup.source("A", 1, 3), dedup.source("B", 1)), snapshots=True, crashes=1, failures=1)
    system = dedup.system(setup)
    merged, whole = explore(system), explore(replace(system, merge=lambda world: world))
    assert whole.complete
    assert whole.states > 2 * merged.states
    assert {merge(world) for world in whole.graph} == set(merged.graph)
    assert merged.holds
    assert whole.holds


def test_a_variant_that_does_not_exist_is_named_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="there is no variant named 'nonsense'; there are judged-when-off, no-check"):
        explorations("nonsense")
