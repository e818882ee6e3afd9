"""An exploration of the model in words: its size, the statements that hold, and the counterexamples of the others.

:mod:`model.explorations` has the explorations and their statements. A broken promise is shown step by step, other
broken statements only with the number of their steps, unless there is no broken promise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeVar

from conformance.report.sentences.lists import count
from model.explore import Counterexample, Exploration, Label, NamedExploration, Path, Statement

S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Label)


def in_words(named: NamedExploration[S, L], found: Exploration[S, L]) -> str:
    """One exploration and its result, as lines for a terminal."""
    return "\n".join(_lines(named, found))


def broken_in_brief(found: Exploration[S, L]) -> list[str]:
    """Each broken statement with its rules, and the length of its shortest counterexample."""
    brief = [f"{_statement(one.broken)}: {_length(one.path)}" for one in found.counterexamples]
    if found.dead_end is not None:
        brief.append(f"from everywhere a good ending is within reach: {_length(found.dead_end)}")
    return brief


def _lines(named: NamedExploration[S, L], found: Exploration[S, L]) -> Iterator[str]:
    yield f"{named.name}: {named.what}"
    yield f"  {_size(found)}"
    if found.held and not found.counterexamples:
        yield "  In every one of them:" if found.complete else "  In those that were visited:"
        yield from (f"    {_statement(statement)}" for statement in found.held)
    elif found.held:
        yield f"  {count(len(found.held), 'statement holds', 'statements hold')} in every one of them."
    whole = _in_full(found)
    for counterexample in whole:
        yield f"  Broken: {_statement(counterexample.broken)}"
        yield from _steps(counterexample.path)
    for counterexample in found.counterexamples:
        if counterexample not in whole:
            yield f"  Broken after {_length(counterexample.path)}: {_statement(counterexample.broken)}"
    yield from _endings(found)
    for statement in found.unexercised:
        yield f"  Not exercised: {_statement(statement)}"
    if found.untaken:
        yield f"  Never happened: {', '.join(sorted(found.untaken))}."


def _size(found: Exploration[S, L]) -> str:
    stop = "" if found.complete else " It stopped there."
    return (
        f"{found.states:,} states, {found.transitions:,} transitions, at most {found.depth} steps from the start.{stop}"
    )


def _in_full(found: Exploration[S, L]) -> tuple[Counterexample[S, L], ...]:
    promises = tuple(c for c in found.counterexamples if c.broken.promise)
    return promises or found.counterexamples[:1]


def _endings(found: Exploration[S, L]) -> Iterator[str]:
    if found.dead_end is not None:
        yield "  Broken: from everywhere a good ending is within reach. It is not after:"
        yield from _steps(found.dead_end)
    elif found.knows_endings and not any(c.broken.promise for c in found.counterexamples):
        yield "  From everywhere a good ending is within reach."


def _statement(statement: Statement[S, L]) -> str:
    return f"{statement.says} ({', '.join(statement.rules)})"


def _length(path: Path[S, L]) -> str:
    return count(len(path.labels), "step", "steps")


def _steps(path: Path[S, L]) -> Iterator[str]:
    yield from (f"    {number:2}. {label}" for number, label in enumerate(path.labels, start=1))
