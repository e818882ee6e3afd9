"""Judges a step by the documents, and explains afterwards what they do not allow.

This is the entry point of the model. :func:`judge` takes the state, an operation and what was observed of it, and
returns the next state or the broken rule. It is pure, so a stored history is judged again with the same result.

The rules know no deviation. Each state remembers the step that led to it, and the state before. Only if a rule is
broken, the deviations are asked: those that are known, then all of them, which only give the violation its name.

The search is for the smallest set of deviations. A violation is either explained at once, and then the rest of its step
is judged; or a deviation changed something silently at an earlier step, and then all steps since are judged again from
the state that it led to. What is judged may break the next rule, which takes the next deviation. So a set that has
fewer unknown deviations is tried before one that has more, and of these a smaller one before a larger one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from model.administrator_operations import AtOnce, ClearBacklog
from model.cursors.ledger import Interval
from model.deviation import clients_by_name
from model.deviations import DEVIATIONS, EXPLANATIONS, Explanation, counted
from model.deviations.facts import library_in
from model.events import AnyOutcome, BothAnswered, Done, Late, Refused
from model.example import administrators
from model.example.judge import NO_TIME
from model.example.judge import judge_step as by_documents
from model.example.reads import right_after_read
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import AnyOperation
from model.service.unexpected import Unexpected
from model.subscriptions.counts import Count, Starving
from model.subscriptions.evidence import Undispatched
from model.upgrades import throughout
from model.vocabulary import SubscriptionId
from model.ways import Way, adding, together

MOST_NAMES: Final = 3
"""How many deviations may explain a violation together."""
MOST_CHANGES: Final = 2
"""How many earlier steps may have ended otherwise."""
MOST_STEPS: Final = 2_000
"""How many steps may be judged again, and violations met on the way, to explain one."""


def judge(
    state: Example,
    operation: AnyOperation,
    outcome: AnyOutcome,
    late: tuple[Late, ...] = (),
    at: Interval = NO_TIME,
    unexpected: tuple[Unexpected, ...] = (),
) -> Judgement:
    """The state that is possible after this operation and outcome. Late answers are judged first.

    ``at``: when it was performed; without it, no time passes. ``unexpected``: what else the broker did.
    """
    step = Step(
        operation=operation,
        outcome=outcome,
        invoked_ms=at.invoked_ms,
        completed_ms=at.completed_ms,
        late=late,
        unexpected=unexpected,
    )
    return judge_step(state, step)


def judge_step(state: Example, step: Step) -> Judgement:
    """The same for a step of a history."""
    judged = _judged(state, step)
    if isinstance(judged, Allowed):
        return counted(throughout(state, judged))
    explained = _explained(state, step, judged)
    if isinstance(explained, Broken):
        return right_after_read(state, step, explained)
    return throughout(state, explained)


def _judged(state: Example, step: Step) -> Judgement:
    match step.operation, step.outcome:
        case AtOnce(), BothAnswered():
            return administrators.at_once(state, step, _judged)
        case ClearBacklog(), Done() | Refused():
            return administrators.cleared(state, step, _judged)
        case _:
            return _judged_alone(state, step)


def _judged_alone(state: Example, step: Step) -> Judgement:
    judged = by_documents(state, step)
    return judged if isinstance(judged, Broken) else _remembered(state, step, judged)


def _remembered(state: Example, step: Step, judged: Allowed[Example]) -> Allowed[Example]:
    """The same state, with the step that led to it, unless that was of several requests."""
    if not isinstance(judged.state, Example):
        raise TypeError(
            f"the state after a violation that was passed over is {type(judged.state)}: a function on its way returns "
            "it as it is, instead of calling then()"
        )
    if judged.state.past is not state.past:
        return judged  # each of its requests is remembered
    return judged.of(replace(judged.state, past=Past(state, step, judged.state)))


def _explained(state: Example, step: Step, broken: Broken) -> Judgement:
    """Known deviations explain a violation, or others name the first violation that they do not explain."""
    names = clients_by_name(state.known)
    known = [one for name, one in EXPLANATIONS.items() if name in names]
    by_known, met = _Search(names, known).explaining(_Open(state, step, broken))
    if isinstance(by_known, Allowed):
        return _met(by_known, met)
    if by_known.broken.deviation is not None:
        return by_known.broken
    by_all, more = _Search(names, EXPLANATIONS.values()).explaining(by_known)
    if isinstance(by_all, _Open):
        return _named_alone(by_known)
    if unknown := frozenset(more) - names.keys():
        return _named(by_known, unknown)
    return _met(by_all, (*met, *more))  # the first search had used up its steps


def _met(judged: Allowed[Example], names: tuple[str, ...]) -> Allowed[Example]:
    """The same, explained by these deviations, each as often as it explains something."""
    state = judged.state
    if state.past is not None:
        judged = judged.of(replace(state, past=replace(state.past, met=names)))
    return counted(replace(judged, deviations=(*judged.deviations, *names)))


def _named_alone(found: _Open) -> Broken:
    """A violation whose step breaks another rule that nothing explains. It has a name all the same."""
    names = [
        name
        for name, one in EXPLANATIONS.items()
        if name not in clients_by_name(found.state.known)
        and one.explains is not None
        and one.explains(found.state, found.step, found.broken) is not None
    ]
    return _named(found, names[:1]) if names else found.broken


def _named(found: _Open, names: Collection[str]) -> Broken:
    """The same violation by the name of an unknown deviation that explains it; its own rule, if that breaks with it.

    Of what happened at an earlier step, the deviation says more than the rule that is broken now.
    """
    broken = found.broken

    def fit(name: str) -> tuple[bool, bool, str]:
        one = DEVIATIONS[name]
        return broken.rule != one.rule, broken.rule not in one.also, name

    entry = DEVIATIONS[min(names, key=fit)]
    rule = broken.rule if broken.rule in entry.also and _is_at_once(found, entry.name) else entry.rule
    return replace(entry.broken(broken.because, rule), is_overdue=broken.is_overdue)


def _is_at_once(found: _Open, name: str) -> bool:
    """Whether a deviation explains what is wrong, and not what happened before."""
    one, broken = EXPLANATIONS[name], found.broken
    adds = one.adds is not None and isinstance(broken.evidence, Count | Starving)
    return adds or (one.explains is not None and one.explains(found.state, found.step, broken) is not None)


@dataclass(frozen=True, slots=True)
class _Later:
    """A step that is to be judged again, and how it was judged before."""

    step: Step
    past: Past | None = None

    def ended_again(self, judged: Allowed[Example]) -> Allowed[Example]:
        """The same answer, with what deviations had changed silently in this step, unless it is otherwise now."""
        if self.past is None or self.past.right is None or judged.state.past is None:
            return judged
        other = _changed_alike(judged.state, self.past.right, self.past.after)
        past = replace(judged.state.past, after=other, right=judged.state, met=self.past.met)
        return judged.of(replace(other, past=past))


def _changed_alike(state: Example, right: Example, after: Example) -> Example:
    """The state with each part that was changed before, where it is as right as it was then."""
    consumption, had = state.consumption, right.consumption
    for subscription, cursor in after.consumption.cursors.items():
        before = had.cursors.get(subscription)
        if before is not cursor and consumption.cursors.get(subscription) == before:
            consumption = consumption.with_cursor(subscription, cursor)
    for name, consumer in after.consumption.consumers.items():
        other = had.consumers.get(name)
        if other is not consumer and consumption.consumers.get(name) == other:
            consumption = consumption.with_consumer(name, consumer)
    return replace(state, consumption=consumption)


@dataclass(frozen=True, slots=True)
class _Open:
    """A violation that is to be explained.

    ``rest``: the steps after it that were judged before, and are to be judged again. ``changes``: how many earlier
    steps are taken to have ended otherwise.
    """

    state: Example
    step: Step
    broken: Broken
    rest: tuple[_Later, ...] = ()
    changes: int = 0


_Found = _Open | Allowed[Example]


def _subscriptions_of(found: _Open) -> frozenset[SubscriptionId] | None:
    """The subscriptions that a step is about, if it is about no others: on a topic that is trimmed, where one begins
    depends on the others."""
    state, operation = found.state.consumption, found.step.operation
    name = getattr(operation, "subscription", None)
    if name is not None and operation.topic is not None:
        here = frozenset(SubscriptionId(part, name) for part in state.partitions.get(operation.topic, ()))
    else:
        consumer = state.consumers.get(operation.actor or "")
        here = frozenset() if consumer is None else frozenset(consumer.subscriptions)
    is_alone = all(one.topic in state.topics and not state.topics[one.topic].is_trimmed for one in here)
    return here if here and is_alone else None


def _changes_others_only(right: Example, other: Example, subscriptions: frozenset[SubscriptionId] | None) -> bool:
    """Whether an alternative has other cursors than the state by the documents, and none of these subscriptions."""
    before, after = right.consumption.cursors, other.consumption.cursors
    changed = {name for name, cursor in after.items() if before.get(name) is not cursor}
    return bool(changed) and subscriptions is not None and subscriptions.isdisjoint(changed)


def _is_further(found: _Open, left: _Open) -> bool:
    """Whether a change of an earlier step explains a violation, so that another one is left of the same step.

    A wrong state has no evidence, and is judged first.
    """
    is_next = (left.broken.evidence is None or left.changes > 0) and found.broken.evidence is not None
    return not found.rest and (is_next or found.broken.deviation is not None)


@dataclass(slots=True)
class _Search:
    """One search for the smallest set of deviations among those ``asked``. :data:`MOST_STEPS` bounds ``steps``."""

    known: Mapping[str, frozenset[str]]
    asked: Collection[Explanation]
    steps: int = 0

    def explaining(self, violation: _Open) -> tuple[_Found, tuple[str, ...]]:
        """What the step comes to, and the deviations that it takes, each as often as it explains something.

        If no set of them was found: the violation that is left after what they explain, and those deviations.
        """
        number = itertools.count()
        queue: list[tuple[int, int, bool, int, int, _Found, tuple[str, ...]]] = []
        left: _Open = violation
        left_met: tuple[str, ...] = ()

        def put(found: _Found, met: tuple[str, ...]) -> None:
            names = frozenset(met)
            is_open, ahead = isinstance(found, _Open), len(found.rest) if isinstance(found, _Open) else 0
            heapq.heappush(
                queue, (len(names - self.known.keys()), len(names), is_open, ahead, next(number), found, met)
            )

        put(violation, ())
        while queue:
            *_, found, met = heapq.heappop(queue)
            if isinstance(found, Allowed):
                return found, met
            if not found.changes or _is_further(found, left):
                left, left_met = found, met
            if self.steps >= MOST_STEPS:
                continue  # what was found before is an answer all the same
            self.steps += 1
            for explanation in self.asked:
                more = (*met, explanation.entry.name)
                if len(frozenset(more)) <= MOST_NAMES:
                    for one in itertools.chain(self._at_once(found, explanation), self._before(found, explanation)):
                        if isinstance(one, Allowed) and self._is_smallest(more, met):
                            return one, more
                        put(one, more)
            for way in self._by_sums(found):
                more = (*met, *sorted(way))
                if len(frozenset(more)) <= MOST_NAMES:
                    put(self._passed(found, found.broken.passing()), more)
        return left, left_met

    def _is_smallest(self, more: tuple[str, ...], met: tuple[str, ...]) -> bool:
        """Whether no other set of deviations can come before this one, which ``met`` led to."""
        names = frozenset(more)
        return names <= self.known.keys() and len(names) <= max(1, len(frozenset(met)))

    def _is_of_others(self, one: Explanation, state: Example, step: Step, broken: Broken | None = None) -> bool:
        """Whether a deviation is known, but only of other clients than the one that a step is about."""
        clients = self.known.get(one.entry.name, frozenset())
        return bool(clients) and library_in(state, step, broken) not in (None, *clients)

    def _at_once(self, found: _Open, explanation: Explanation) -> Iterator[_Found]:
        """What the step and the ones after it come to, if the deviation explains the violation."""
        if explanation.explains is None or self._is_of_others(explanation, found.state, found.step, found.broken):
            return
        judged = explanation.explains(found.state, found.step, found.broken)
        if judged is not None:
            yield self._passed(found, judged)

    def _passed(self, found: _Open, judged: Judgement) -> _Found:
        """What the step and the ones after it come to, if the step comes to this."""
        if isinstance(judged, Broken):
            return replace(found, broken=judged)
        return self._again(_remembered(found.state, found.step, judged), found.rest, found.changes)

    def _by_sums(self, found: _Open) -> Iterable[Way]:
        """The sets of deviations that explain all counts of a violation, each of which adds something."""
        evidence = found.broken.evidence
        counts = evidence.counts if isinstance(evidence, Count | Starving | Undispatched) else ()
        ways = [frozenset(adding(self._amounts(found, one), one.difference)) for one in counts]
        return sorted(together(*ways), key=lambda way: (len(way), sorted(way))) if ways else ()

    def _amounts(self, found: _Open, wrong: Count) -> dict[str, tuple[int, int]]:
        each = (
            (one.entry.name, one.adds(found.state, found.step, wrong)) for one in self.asked if one.adds is not None
        )
        return {name: amounts for name, amounts in each if amounts is not None}

    def _before(self, found: _Open, explanation: Explanation) -> Iterator[_Found]:
        """What all steps come to, if the deviation changed something at an earlier one. The last one is tried first."""
        if explanation.alternatives is None or found.changes >= MOST_CHANGES:
            return
        since, subscriptions = (_Later(found.step), *found.rest), _subscriptions_of(found)
        for past in found.state.trace:
            if self._is_of_others(explanation, past.before, past.step):
                continue
            for other in explanation.alternatives(replace(past.after, past=past), past.step):
                if self.steps >= MOST_STEPS:
                    return
                if _changes_others_only(past.after, other, subscriptions):
                    continue
                changed = replace(other, past=replace(past, after=other, right=past.right or past.after))
                yield self._again(Allowed(changed), since, found.changes + 1)
            since = (_Later(past.step, past), *since)

    def _again(self, judged: Allowed[Example], steps: tuple[_Later, ...], changes: int) -> _Found:
        """These steps, judged again from a state. What deviations explained before, they explain again."""
        for number, later in enumerate(steps):
            self.steps += 1
            after = _judged(judged.state, later.step)
            if isinstance(after, Broken) and later.past is not None:
                after = self._explained_again(judged.state, later.step, after, later.past.met)
            if isinstance(after, Broken):
                return _Open(judged.state, later.step, after, steps[number + 1 :], changes)
            judged = later.ended_again(after)
        return judged

    def _explained_again(self, state: Example, step: Step, broken: Broken, met: tuple[str, ...]) -> Judgement:
        """A violation that these deviations explained at once before."""
        judged: Judgement = broken
        for _ in met:
            if not isinstance(judged, Broken):
                break
            judged = self._passed_by(_Open(state, step, judged), met)
        if isinstance(judged, Broken):
            return judged
        after = _remembered(state, step, judged)
        past = replace(after.state.past, met=met) if after.state.past is not None else None
        return after.of(replace(after.state, past=past))

    def _passed_by(self, found: _Open, names: tuple[str, ...]) -> Judgement:
        """What a step comes to if one of these deviations, or the sum of several, explains its violation at once."""
        for one in (EXPLANATIONS[name] for name in dict.fromkeys(names)):
            judged = None if one.explains is None else one.explains(found.state, found.step, found.broken)
            if judged is not None:
                return judged
        if any(way <= frozenset(names) for way in self._by_sums(found)):
            return found.broken.passing()
        return found.broken
