"""Exploration: every reachable state of a small configuration, breadth first.

It is given where things start, what can happen next, and what must hold; it knows nothing of topics. It answers what no
black box can: whether a rule holds in *every* state, the shortest way to a state where it does not, what never happens,
and whether a good ending stays within reach. Configurations are bounded by those who write them; ``limit`` is a guard,
and an exploration that met it says so and claims nothing about what it has not seen.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import networkx as nx


class Label(Protocol):
    """What happened in a transition: of which kind, and ``str()`` of it in words."""

    @property
    def kind(self) -> str:
        """The kind of transition, one of those that the system declares."""


S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Label)


@dataclass(frozen=True, slots=True)
class Always(Generic[S]):
    """A statement about every state, with the rules that it stands for.

    A ``promise`` is one that users rely on: beyond a state that breaks it nothing is explored. Other statements are
    about what is inside, and the exploration goes on to what comes of it.
    """

    rules: tuple[str, ...]
    says: str
    holds: Callable[[S], bool]
    promise: bool = False


@dataclass(frozen=True, slots=True)
class EveryStep(Generic[S, L]):
    """A statement about every transition of certain kinds: the state before, what happened, the state after."""

    rules: tuple[str, ...]
    says: str
    kinds: frozenset[str]
    holds: Callable[[S, L, S], bool]
    promise: bool = False


Statement = Always[S] | EveryStep[S, L]
"""What must hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Generic[S, L]):
    """What is explored.

    ``merge`` may replace a state by another that no statement and no later step can tell from it, so that there are
    fewer. ``kinds`` are all kinds of transitions that could be. ``good_ending`` is where everything should be able to
    end; None where the bounds of the configuration leave that to luck.
    """

    initial: tuple[S, ...]
    steps: Callable[[S], Iterable[tuple[L, S]]]
    always: tuple[Always[S], ...] = ()
    every_step: tuple[EveryStep[S, L], ...] = ()
    kinds: frozenset[str] = frozenset()
    good_ending: Callable[[S], bool] | None = None
    merge: Callable[[S], S] = field(default=lambda state: state)


@dataclass(frozen=True, slots=True)
class Path(Generic[S, L]):
    """A way through the graph: the labels, and the states before, between and after them."""

    labels: tuple[L, ...]
    states: tuple[S, ...]


@dataclass(frozen=True, slots=True)
class Counterexample(Generic[S, L]):
    """A statement that does not hold, and a shortest way to where it does not."""

    broken: Statement[S, L]
    path: Path[S, L]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration(Generic[S, L]):
    """What an exploration found.

    The nodes of ``graph`` are the states, in the order in which they were found; the attribute ``words`` of an edge is
    what leads from one to the other, a line each. ``exercised`` says of each statement in how many states or steps it
    was put to the test. ``untaken`` are the kinds of transitions that never happened. ``dead_end`` is a shortest way to
    a state from which no good ending is within reach, if there is one; ``knows_endings`` is false where the system has
    no good ending, or where the limit was met (``complete`` is false).
    """

    graph: nx.DiGraph[S]
    transitions: int
    depth: int
    complete: bool
    statements: tuple[Statement[S, L], ...]
    exercised: Mapping[str, int]
    counterexamples: tuple[Counterexample[S, L], ...]
    dead_end: Path[S, L] | None
    knows_endings: bool
    untaken: frozenset[str]

    @property
    def held(self) -> tuple[Statement[S, L], ...]:
        """The statements that were exercised and hold in every visited state."""
        broken = {counterexample.broken.says for counterexample in self.counterexamples}
        return tuple(s for s in self.statements if self.exercised[s.says] and s.says not in broken)

    @property
    def unexercised(self) -> tuple[Statement[S, L], ...]:
        """The statements that nothing exercised."""
        return tuple(statement for statement in self.statements if not self.exercised[statement.says])

    @property
    def states(self) -> int:
        """How many states were found."""
        return self.graph.number_of_nodes()

    @property
    def holds(self) -> bool:
        """Whether everything was seen and holds: every statement, and a good ending within reach."""
        return self.complete and not self.counterexamples and not self.unexercised and self.dead_end is None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedExploration(Generic[S, L]):
    """An exploration that can be run: its name, what is explored, and whether everything must hold in it."""

    name: str
    what: str
    must_hold: bool
    run: Callable[[], Exploration[S, L]]


def explore(system: System[S, L], *, limit: int = 200_000) -> Exploration[S, L]:
    """Explore ``system``, breadth first, until nothing new is found or more than ``limit`` states are."""
    search = _Search(system)
    complete = search.run(limit)
    return Exploration(
        graph=search.graph,
        transitions=search.transitions,
        depth=max(search.depth_of.values(), default=0),
        complete=complete,
        statements=(*system.always, *system.every_step),
        exercised=search.exercised,
        counterexamples=tuple(search.counterexamples.values()),
        dead_end=search.dead_end() if complete else None,
        knows_endings=complete and system.good_ending is not None,
        untaken=system.kinds - search.taken,
    )


class _Search(Generic[S, L]):
    """A search while it goes on; lives only within :func:`explore`."""

    def __init__(self, system: System[S, L]) -> None:
        self.system = system
        self.graph: nx.DiGraph[S] = nx.DiGraph()
        self.came_from: dict[S, tuple[S, L] | None] = {}
        self.depth_of: dict[S, int] = {}
        self.ahead: deque[S] = deque()
        self.broken: set[S] = set()
        self.taken: set[str] = set()
        self.transitions = 0
        self.exercised: Counter[str] = Counter()
        self.counterexamples: dict[str, Counterexample[S, L]] = {}

    def run(self, limit: int) -> bool:
        """Search, and say whether everything was seen."""
        for state in self.system.initial:
            self._find(self.system.merge(state), None)
        while self.ahead:
            if len(self.came_from) > limit:
                return False
            before = self.ahead.popleft()
            for label, after in self.system.steps(before):
                self._step(before, label, after)
        return True

    def _step(self, before: S, label: L, after: S) -> None:
        self.transitions += 1
        self.taken.add(label.kind)
        is_kept = self._check_step(before, label, after)
        after = self.system.merge(after)
        if after not in self.came_from:
            self._find(after, (before, label), is_kept=is_kept)
        words = self.graph.get_edge_data(before, after, default={}).get("words")
        self.graph.add_edge(before, after, words=str(label) if words is None else f"{words}\n{label}")

    def _find(self, state: S, origin: tuple[S, L] | None, *, is_kept: bool = True) -> None:
        self.came_from[state] = origin
        self.depth_of[state] = 0 if origin is None else self.depth_of[origin[0]] + 1
        self.graph.add_node(state)
        if self._check_state(state) and is_kept:
            self.ahead.append(state)
        else:
            self.broken.add(state)

    def _check_state(self, state: S) -> bool:
        """Check what is said of states, and whether it keeps the promises."""
        is_kept = True
        for statement in self.system.always:
            self.exercised[statement.says] += 1
            if self._is_open(statement) and not statement.holds(state):
                is_kept = is_kept and not statement.promise
                self._keep(Counterexample(statement, self.path_to(state)))
        return is_kept

    def _check_step(self, before: S, label: L, after: S) -> bool:
        """Check what is said of steps, and whether this one keeps the promises."""
        is_kept = True
        for statement in self.system.every_step:
            if label.kind not in statement.kinds:
                continue
            self.exercised[statement.says] += 1
            if self._is_open(statement) and not statement.holds(before, label, after):
                is_kept = is_kept and not statement.promise
                way = self.path_to(before)
                self._keep(Counterexample(statement, Path((*way.labels, label), (*way.states, after))))
        return is_kept

    def _is_open(self, statement: Statement[S, L]) -> bool:
        """Whether it is still to be known if it holds: a promise always, to find where not to go on."""
        return statement.promise or statement.says not in self.counterexamples

    def _keep(self, counterexample: Counterexample[S, L]) -> None:
        """Keep the first of each statement: it is a shortest one."""
        self.counterexamples.setdefault(counterexample.broken.says, counterexample)

    def path_to(self, state: S) -> Path[S, L]:
        """The way by which a state was found first, which is a shortest one."""
        labels: list[L] = []
        states = [state]
        while (origin := self.came_from[states[-1]]) is not None:
            states.append(origin[0])
            labels.append(origin[1])
        return Path(tuple(reversed(labels)), tuple(reversed(states)))

    def dead_end(self) -> Path[S, L] | None:
        """A shortest way to a state that no good ending can be reached from, and that broke no promise, if any."""
        good_ending = self.system.good_ending
        if good_ending is None:
            return None
        can_end = {state for state in self.came_from if state in self.broken or good_ending(state)}
        backwards = deque(can_end)
        while backwards:
            for before in self.graph.predecessors(backwards.popleft()):
                if before not in can_end:
                    can_end.add(before)
                    backwards.append(before)
        stuck = (state for state in self.came_from if state not in can_end)
        return next((self.path_to(state) for state in stuck), None)
