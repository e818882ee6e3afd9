"""Shared by the tests of the explorations: each exploration runs once, and a contract that each must fulfil.

The test module of a reference subclasses :class:`ExplorationContract` under a name that starts with ``Test``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import FrameType
from typing import Any, ClassVar

from model.explorations import explorations
from model.explore import Exploration, NamedExploration
from model.rules.catalogue import PLACES
from model.variants import NamedVariant, Origin


@cache
def explored(name: str) -> Exploration[Any, Any]:
    """The exploration of one of the document's configurations, or of a variant."""
    of_documents = {named.name: named for named in explorations()}
    named = of_documents[name] if name in of_documents else explorations(name)[0]
    return named.run()


def broken(name: str) -> dict[str, int]:
    """The statements that an exploration breaks, with the lengths of the shortest paths."""
    return {c.broken.says: len(c.path.labels) for c in explored(name).counterexamples}


def words(name: str, says: str) -> list[str]:
    """The shortest counterexample, in words."""
    (path,) = [c.path for c in explored(name).counterexamples if c.broken.says == says]
    return [str(label) for label in path.labels]


def dead_end(name: str) -> list[str]:
    """The shortest path to a state from which no good ending is reachable, in words."""
    found = explored(name).dead_end
    assert found is not None
    return [str(label) for label in found.labels]


def called_while(
    explore: Callable[[], object], modules: Iterable[str], *, noting: Callable[[FrameType], None] = lambda _: None
) -> set[str]:
    """The qualified names of the functions of these modules that are called; ``noting`` sees each call as it begins."""
    watched = frozenset(modules)
    called: set[str] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__") in watched:
            called.add(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")
            noting(frame)

    sys.setprofile(watch)
    try:
        explore()
    finally:
        sys.setprofile(None)
    return called


def carried_by(modules: Iterable[str]) -> dict[str, set[str]]:
    """The rules that these modules carry, each with the places that do."""
    watched = frozenset(modules)
    places = {rule: {place for place in found if place.rpartition(".")[0] in watched} for rule, found in PLACES.items()}
    return {rule: found for rule, found in places.items() if found}


class ExplorationContract:
    """What must hold of the explorations of every reference."""

    document: ClassVar[tuple[NamedExploration[Any, Any], ...]]
    """The explorations of the document itself."""
    variants: ClassVar[tuple[NamedVariant[Any], ...]]
    rules: ClassVar[set[str]]
    """What the explorations can show."""
    found: ClassVar[Mapping[str, tuple[int, int]]]
    """States and transitions. A change of these numbers is a change of what is explored."""
    breaks: ClassVar[Mapping[str, tuple[str, int]]]
    """For each variant the most important statement that it breaks, and the number of steps."""
    stuck: ClassVar[set[str]]
    """The variants that can make a good ending unreachable."""
    endless: ClassVar[set[str]] = set()
    """The configurations that cannot promise a good ending."""
    unbroken: ClassVar[set[str]] = set()
    """The statements that nothing explored here breaks."""

    def test_every_rule_holds_in_every_state_and_a_good_ending_stays_reachable(self) -> None:
        holding = [named.name for named in self.document if named.must_hold]
        assert holding
        for name in holding:
            assert broken(name) == {}, name
            assert explored(name).unexercised == (), name
            assert explored(name).dead_end is None, name
            assert explored(name).holds, name

    def test_only_the_listed_configurations_have_no_good_ending(self) -> None:
        assert {
            named.name for named in self.document if named.must_hold and not explored(named.name).knows_endings
        } == self.endless

    def test_the_explorations_have_these_numbers_of_states_and_transitions(self) -> None:
        runs = {named.name: explored(named.name) for named in self.document}
        assert {name: (run.states, run.transitions) for name, run in runs.items()} == self.found

    def test_every_kind_of_step_occurs(self) -> None:
        assert {name: explored(name).untaken for name in self.found if explored(name).untaken} == {}

    def test_every_variant_breaks_a_statement_by_this_shortest_path(self) -> None:
        assert set(self.breaks) == {named.name for named in self.variants}
        lengths = {name: broken(name).get(says) for name, (says, _) in self.breaks.items()}
        assert lengths == {name: steps for name, (_, steps) in self.breaks.items()}

    def test_only_these_variants_make_a_good_ending_unreachable(self) -> None:
        assert {name for name in self.breaks if explored(name).dead_end is not None} == self.stuck

    def test_every_statement_is_broken_by_some_variant_and_all_rules_are_covered(self) -> None:
        stated = {s.says: s.rules for name in self.found for s in explored(name).statements}
        refuted = {says for name in (*self.breaks, *self.found) for says in broken(name)}
        assert set(stated) - refuted == self.unbroken
        assert {rule for rules in stated.values() for rule in rules} == self.rules

    def test_every_variant_of_a_release_names_its_code(self) -> None:
        assert self.variants
        assert all((named.origin is Origin.RELEASE) == bool(named.code) for named in self.variants)
