"""The present observer of deduplication and the reference states (``reference_states``), side by side."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

import pytest

from model.deduplication import snapshots, topic_observer
from model.deduplication.answers import hand_out
from model.deduplication.inactivity import may_be_forgotten
from model.deduplication.producer_state import NONE, Circumstances, ProducerState
from model.deduplication.topic_observer import TopicView
from model.events import Answer, LoggedEntry, SnapshotRead
from model.judgement import Allowed, Broken
from model.log import Position
from model.vocabulary import Entry
from tests.model.deduplication import reference_states
from tests.model.deduplication.reference_states import States, fresh

Producers = Mapping[str, States] | None
"""The possible states of each producer of a topic; None: they are not followed any more."""
Judge = Callable[..., Allowed[TopicView] | Broken]


@dataclass(slots=True)
class Beside:
    """The results of both observers.

    ``sizes`` and ``of_reference``: how many states they held after each judgement; ``seconds``: how long they took.
    ``alone``: how often only the reference states found a violation. ``found`` and ``missed``: how often they found the
    violation of the observer, or did not.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    of_reference: Counter[int] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: {"observer": 0.0, "reference": 0.0})
    alone: list[str] = field(default_factory=list)
    found: int = 0
    missed: list[str] = field(default_factory=list)
    _views: dict[int, tuple[object, Producers]] = field(default_factory=dict)

    def of(self, view: TopicView) -> Producers:
        """The reference states of a topic; a view that changes otherwise keeps its states, and these."""
        _, producers = self._views.get(id(view.states), (None, {}))
        return producers

    def judges(self, name: str, judge: Judge, update: Callable[..., Producers]) -> Judge:
        """The same judgement, and that of the reference states."""

        def both(view: TopicView, *seen: object, **told: object) -> Allowed[TopicView] | Broken:
            began_s = time.perf_counter()
            judged = judge(view, *seen, **told)
            at_s, before = time.perf_counter(), self.of(view)
            after = None if before is None else update(view, before, *seen, **told)
            is_impossible = after is not None and not all(after.values())
            if isinstance(judged, Broken):
                self.found += is_impossible
                if after is not None and not is_impossible:
                    self.missed.append(f"{name}: {judged.because}")
                return judged
            if is_impossible:
                self.alone.append(name)
            self.keep(judged.state, None if is_impossible else after)
            if after is not None:
                self.sizes[judged.state.size] += 1
                self.of_reference[sum(map(len, after.values()))] += 1
                self.seconds["observer"] += at_s - began_s
                self.seconds["reference"] += time.perf_counter() - at_s
            return judged

        return both

    def keep(self, view: TopicView, producers: Producers) -> None:
        """Store these as the reference states of a view."""
        self._views[id(view.states)] = view.states, producers


def watched(monkeypatch: pytest.MonkeyPatch) -> Beside:
    """Have both observers judge from now on."""
    beside = Beside()
    updates: dict[tuple[ModuleType, str], Callable[..., Producers]] = {
        (topic_observer, "sent"): _sent,
        (topic_observer, "opened"): _opened,
        (topic_observer, "unloaded"): _unloaded,
        (topic_observer, "switched"): _switched,
        (topic_observer, "purged"): _purged,
        (topic_observer, "log_read"): _log_read,
        (snapshots, "snapshot_read"): _snapshot_read,
    }
    for (module, name), update in updates.items():
        judge: Judge = getattr(module, name)
        monkeypatch.setattr(module, name, beside.judges(name, judge, update))
    on_each_state = TopicView.on_each_state

    def exposing(view: TopicView, change: Callable[[ProducerState], Iterable[ProducerState]]) -> TopicView:
        after, before = on_each_state(view, change), beside.of(view)
        exposed = before and {name: reference_states.exposed(states) for name, states in before.items()}
        beside.keep(after, exposed)
        return after

    monkeypatch.setattr(TopicView, "on_each_state", exposing)
    return beside


def _states(view: TopicView, before: Mapping[str, States], producer: str) -> States:
    return before.get(producer) or fresh(deduplication=view.enabled)


def _sent(
    view: TopicView,
    before: Mapping[str, States],
    producer: str,
    entries: Sequence[Entry],
    answers: Sequence[Answer],
    around: Circumstances,
    *,
    confirmed_before: Position | None,
) -> Producers:
    if around.switched_on:
        return None
    receive = partial(reference_states.sent, around=reference_states.without_switch(around, enabled=view.enabled))
    states = _states(view, before, producer)
    ways = [after for after, _ in hand_out(states, entries, answers, receive)]
    after = frozenset[reference_states.State]().union(*ways)
    return {**before, producer: reference_states.settled(after, may_fail=around.may_fail)}


def _opened(view: TopicView, before: Mapping[str, States], producer: str, last_sequence_id: int | None) -> Producers:
    states = _states(view, before, producer)
    if last_sequence_id is not None and view.enabled:
        states = reference_states.opened(states, last_sequence_id)
    return {**before, producer: states}


def _unloaded(view: TopicView, before: Mapping[str, States]) -> Producers:
    is_crowded = len(view.states) > view.snapshot_room
    return {n: reference_states.loaded(states, may_be_unknown=is_crowded) for n, states in before.items()}


def _switched(_: TopicView, before: Mapping[str, States], *, on: bool) -> Producers:
    return {name: reference_states.switched(states, on=on) for name, states in before.items()}


def _purged(view: TopicView, before: Mapping[str, States], minutes: int, timeout_min: int) -> Producers:
    activity = view.activity.after(minutes, view.states)

    def after(name: str, states: States) -> States:
        is_inactive = view.enabled and may_be_forgotten(activity, name, timeout_min)
        return reference_states.purged(states) if is_inactive else states

    return {name: after(name, states) for name, states in before.items()}


def _log_read(view: TopicView, before: Mapping[str, States], entries: Sequence[LoggedEntry]) -> Producers:
    by_producer = {name: [one for one in entries if one.producer == name] for name in view.states}
    return {name: reference_states.read_back(_states(view, before, name), found) for name, found in by_producer.items()}


def _snapshot_read(view: TopicView, before: Mapping[str, States], read: SnapshotRead, *, is_due: bool) -> Producers:
    after, position, producers = dict(before), read.position, read.producers
    for name in dict.fromkeys([*view.states, *producers]):
        if name in producers or len(view.states) <= view.snapshot_room:
            states = _states(view, before, name)
            after[name] = reference_states.in_snapshot(states, producers.get(name, NONE), position)
    return after
