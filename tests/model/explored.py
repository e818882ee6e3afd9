"""Shared by the tests of the explorations: each exploration runs once, and its results are remembered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import FrameType
from typing import Any

import msgspec

from model.explorations import explorations
from model.explore import Exploration
from model.rules.catalogue import PLACES
from tests.model.remembered import remembered


@cache
def explored(name: str) -> Exploration[Any, Any]:
    """The exploration of one of the document's configurations, or of a variant."""
    of_documents = {named.name: named for named in explorations()}
    named = of_documents[name] if name in of_documents else explorations(name)[0]
    return named.run()


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What an exploration found, without its states.

    ``stated``: the rules of each statement; ``broken``: the lengths of the shortest paths to what breaks a statement.
    """

    states: int
    transitions: int
    holds: bool
    has_dead_end: bool
    knows_endings: bool
    untaken: list[str]
    unexercised: list[str]
    stated: dict[str, list[str]]
    broken: dict[str, int]


@cache
def results(name: str) -> Results:
    """What the exploration of a configuration, or of a variant, found, now or before the model was the same."""
    return remembered(name, Results, lambda: _results(explored(name)))


def _results(found: Exploration[Any, Any]) -> Results:
    return Results(
        states=found.states,
        transitions=found.transitions,
        holds=found.holds,
        has_dead_end=found.dead_end is not None,
        knows_endings=found.knows_endings,
        untaken=sorted(found.untaken),
        unexercised=[statement.says for statement in found.unexercised],
        stated={statement.says: list(statement.rules) for statement in found.statements},
        broken={c.broken.says: len(c.path.labels) for c in found.counterexamples},
    )


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
