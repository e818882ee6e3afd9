"""The observer of a topic with deduplication: the possible states of all producer names, operation by operation.

Each function takes a view and an operation with its outcome, and returns the next view (``Allowed``) or the broken rule
(``Broken``). :mod:`model.deduplication.observer` judges one state, and :mod:`model.deduplication.diagnosis` names the
broken rule. This module adds what concerns the whole topic: positions and other producers. Its snapshot is judged by
:mod:`model.deduplication.snapshots`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from model.deduplication import chunks, diagnosis, observer
from model.deduplication.answers import Receive, furthest, hand_out
from model.deduplication.due import DueSnapshots
from model.deduplication.inactivity import Activity, forgotten, may_be_forgotten
from model.deduplication.producer_state import (
    FRESH,
    NONE,
    UNKNOWN_STATUS,
    Circumstances,
    ProducerState,
    ProducerStates,
)
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored, Unknown
from model.judgement import Allowed, Broken, Part
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import Entry


@dataclass(frozen=True, slots=True)
class TopicView:
    """The observer's state of one topic.

    ``enabled``: deduplication is on. ``snapshot_room``: the maximum number of producers in a snapshot. ``ledger_room``:
    the maximum number of entries in a ledger, if known. ``elsewhere``: for each producer name, the highest id that it
    stored on another topic. ``snapshot_failed``: a snapshot's write failed. ``write_failed``: the write of an entry
    failed. ``unconfirmed``: for each producer, the highest unconfirmed id that was sent while writes could fail.
    ``own_policy``: what the topic's own policy says, if it has one. ``has_namespace_policy``: its namespace has one.
    ``snapshots``: those that are due, if known. ``has_markers``: clusters may write markers into the log.
    ``remote``: the producers at another cluster, which :mod:`model.example.remote` follows. ``activity``: which
    producers may be inactive.
    """

    enabled: bool
    snapshot_room: int
    ledger_room: int | None = None
    states: Mapping[str, ProducerStates] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    last_position: Position | None = None
    snapshot_failed: bool = False
    write_failed: bool = False
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    own_policy: bool | None = None
    has_namespace_policy: bool = True
    reloads: int = 0
    snapshots: DueSnapshots | None = None
    has_markers: bool = False
    remote: frozenset[str] = frozenset()
    activity: Activity = field(default_factory=Activity)

    @property
    def is_crowded(self) -> bool:
        """Whether a snapshot may not hold all names."""
        return self.names > self.snapshot_room

    @property
    def names(self) -> int:
        """How many names a snapshot may have to hold: with remote producers, two of their replicator as well."""
        return len(self.states) + len(self.remote) + (2 if self.remote else 0)

    @property
    def has_policy(self) -> bool:
        return self.own_policy is not None

    @property
    def follows_broker(self) -> bool:
        """Whether the broker's setting applies to its deduplication."""
        return not self.has_policy and not self.has_namespace_policy

    def state(self, producer: str) -> ProducerStates:
        """The possible states of a producer name; a fresh one if it is unknown."""
        return self.states.get(producer, FRESH)

    def written(self, producer: str) -> int:
        """The highest id that this producer surely stored here and that deduplication counts."""
        return min(state.written for state in self.state(producer))

    @property
    def size(self) -> int:
        """The number of possible producer states, which must stay small."""
        return sum(len(states) for states in self.states.values())

    def with_states(self, producer: str, states: ProducerStates) -> TopicView:
        return replace(self, states={**self.states, producer: states})

    def on_each_state(self, change: Callable[[ProducerState], Iterable[ProducerState]]) -> TopicView:
        changed = {
            name: frozenset(after for state in states for after in change(state))
            for name, states in self.states.items()
        }
        return replace(self, states=changed)


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A producer with these possible states got an answer to an entry that none of them allows. What explains it says
    which states are possible after it, or how the broker judges all entries that were sent (:class:`Judges`)."""

    view: TopicView
    states: ProducerStates
    entry: Entry
    answer: Answer
    around: Circumstances


@dataclass(frozen=True, slots=True)
class Judges:
    """How a broker judges what the document has otherwise: the possible states after an answer, none if it is wrong."""

    judge: Receive[ProducerStates]


@dataclass(frozen=True, slots=True)
class WrongLastSequenceId:
    """ProducerSuccess contained an id that none of the producer's possible states allows. What explains it says which
    states are possible after it."""

    view: TopicView
    states: ProducerStates
    last_sequence_id: int


@dataclass(frozen=True, slots=True)
class WrongLog:
    """The log has other entries of a producer than any of its possible states. What explains it says which states are
    possible after it."""

    view: TopicView
    producer: str
    states: ProducerStates
    entries: Sequence[LoggedEntry]


def sent(
    view: TopicView,
    producer: str,
    entries: Sequence[Entry],
    answers: Sequence[Answer],
    around: Circumstances,
    *,
    confirmed_before: Position | None,
    explained: Sequence[Receive[ProducerStates]] = (),
) -> Allowed[TopicView] | Broken:
    """A producer sent these entries in order, and received these answers.

    ``confirmed_before``: the last position that was confirmed on the topic before they were sent. ``explained``: the
    states after answers, by deviations.
    """
    given, asked = view, around
    around = replace(around, enabled=view.enabled, switched_on=around.switched_on and view.enabled)
    before = view.state(producer)
    if (broken := _positions_follow(answers, confirmed_before)) is not None:
        return broken

    def take(states: ProducerStates, entry: Entry, answer: Answer) -> ProducerStates:
        after = frozenset(new for state in states for new in observer.send(state, entry, answer, around))
        return next(filter(None, (after, *(one(states, entry, answer) for one in explained))), after)

    ways = list(hand_out(before, entries, answers, take))
    if not ways:
        wrong = WrongAnswer(view, *furthest(before, entries, answers, take), around)
        broken = diagnosis.for_answer(wrong.states, wrong.entry, wrong.answer, _background(view, producer))

        def passed(part: Part) -> Allowed[TopicView] | Broken:
            more = [one.judge for one in part or () if isinstance(one, Judges)]
            every = (*explained, *(more or [partial(_explained, wrong, wrong.states if part is None else part)]))
            return sent(given, producer, entries, answers, asked, confirmed_before=confirmed_before, explained=every)

        return replace(broken, evidence=wrong, passed=passed)
    all_answered = not any(isinstance(answer, Unknown) for answer in answers)
    after = frozenset(observer.settle(state, all_answered=all_answered) for states, _ in ways for state in states)
    exercised: list[str] = []
    states = before
    for entry, answer in zip(entries, ways[0][1], strict=True) if not around.switched_on else ():
        exercised.extend(_exercised_by(view, producer, states, entry, answer))
        states = take(states, entry, answer)
    positions = [answer.position for answer in answers if isinstance(answer, Stored)]
    if view.last_position is not None:
        positions.append(view.last_position)
    view = replace(view, last_position=max(positions, default=None))
    stored = sum(isinstance(answer, Stored) for answer in answers)
    view = unsettled_snapshots(view) if around.switched_on else _due_after(view, stored)
    if around.may_fail:
        lost = [e.highest for e, a in zip(entries, answers, strict=True) if isinstance(a, Unknown | Refused)]
        view = replace(view, unconfirmed={**view.unconfirmed, producer: max(lost, default=NONE)})
    view = replace(view, activity=_after_answers(view.activity, producer, answers, around))
    return Allowed(view.with_states(producer, after), tuple(exercised))


def _explained(
    wrong: WrongAnswer, after: ProducerStates, states: ProducerStates, entry: Entry, answer: Answer
) -> ProducerStates:
    """The states after this answer, which a deviation explains; none after another one."""
    return after if (states, entry, answer) == (wrong.states, wrong.entry, wrong.answer) else frozenset()


def _after_answers(activity: Activity, producer: str, answers: Sequence[Answer], around: Circumstances) -> Activity:
    """A producer whose entries were all confirmed is connected; its ids were judged."""
    confirmed = [isinstance(answer, Stored | Duplicate) for answer in answers]
    activity = activity.judged(producer) if any(confirmed) else activity
    return activity.with_connected(producer) if all(confirmed) and not around.may_fail else activity.without(producer)


def _background(view: TopicView, producer: str) -> diagnosis.Background:
    return diagnosis.Background(
        enabled=view.enabled,
        others=_others(view, producer),
        lost=view.unconfirmed.get(producer, NONE) if view.write_failed else NONE,
        snapshot_failed=view.snapshot_failed,
        is_kept=producer in view.activity.kept,
    )


@carries("DEDUP-02")
def _positions_follow(answers: Sequence[Answer], confirmed_before: Position | None) -> Broken | None:
    """A new entry is stored after all entries confirmed before it was sent, and no two have one position."""
    positions = [answer.position for answer in answers if isinstance(answer, Stored)]
    for position in positions:
        if confirmed_before is not None and position <= confirmed_before:
            return Broken(
                "DEDUP-02",
                f"an entry was stored at {position}, which is not after {confirmed_before}, "
                "confirmed before it was sent",
            )
    if len(set(positions)) < len(positions):
        return Broken(
            "DEDUP-02", f"two entries were confirmed at one position of {', '.join(map(str, sorted(positions)))}"
        )
    return None


@carries("DEDUP-07")
def _others(view: TopicView, producer: str) -> int:
    """The highest id of another producer here, or of this one on another topic, which must not matter (DEDUP-07)."""
    here = [view.written(name) for name in view.states if name != producer]
    return max([*here, view.elsewhere.get(producer, NONE)], default=NONE)


def _exercised_by(view: TopicView, producer: str, states: ProducerStates, entry: Entry, answer: Answer) -> list[str]:
    """The rules that this answer exercises in every possible state before it."""

    def always(holds: Callable[[ProducerState], bool]) -> bool:
        return all(holds(state) for state in states)

    rules: list[str] = []
    if view.enabled and entry.chunk is not None and always(lambda state: chunks.is_known(state, entry)):
        rules.append("CHUNK-13")
    if view.enabled and entry.is_part:
        return rules
    if not view.enabled:
        if isinstance(answer, Stored) and always(lambda state: any(k.highest >= entry.lowest for k in state.entries)):
            rules.append("DEDUP-01")
        return rules
    match answer:
        case Stored():
            rules.append("DEDUP-02")
            if always(lambda state: NONE < state.written < entry.lowest - 1):
                rules.append("DEDUP-08")
            if _others(view, producer) >= entry.lowest:
                rules.append("DEDUP-07")
            if view.write_failed and view.unconfirmed.get(producer, NONE) >= entry.lowest:
                rules.append("DEDUP-06")
            if always(lambda state: observer.has_stored_content(state, entry)):
                rules.append("DEDUP-14")
        case Duplicate():
            rules.append("DEDUP-03")
            if any(state.since == 0 for state in states) and view.reloads == 0:
                rules.append("DEDUP-01")
        case Refused(code) if code == UNKNOWN_STATUS:
            rules += ["DEDUP-04", "DEDUP-05"]
        case _:
            pass
    is_recovered = always(lambda state: state.is_recovered and state.written != NONE)
    if isinstance(answer, Stored | Duplicate) and is_recovered:
        rules.append("DEDUP-12")
    if isinstance(answer, Duplicate) and producer in view.activity.kept:
        rules.append("DEDUP-20")
    if view.snapshot_failed and (isinstance(answer, Duplicate) or (isinstance(answer, Stored) and is_recovered)):
        rules.append("DEDUP-11")
    return rules


def opened(view: TopicView, producer: str, last_sequence_id: int | None) -> Allowed[TopicView] | Broken:
    """A producer was opened, with this last sequence id in ProducerSuccess (None: its client does not expose it)."""
    states = view.state(producer)
    if last_sequence_id is None or not view.enabled:
        return Allowed(_connected(view.with_states(producer, states), producer))
    after = frozenset(new for state in states for new in observer.opened(state, last_sequence_id))
    if not after:
        broken = diagnosis.for_opening(states, last_sequence_id, _background(view, producer))

        def passed(part: Part) -> Allowed[TopicView]:
            return Allowed(_connected(view.with_states(producer, states if part is None else part), producer))

        return replace(broken, evidence=WrongLastSequenceId(view, states, last_sequence_id), passed=passed)
    rules: list[str] = []
    if all(state.written != NONE for state in after):
        rules.append("DEDUP-09")
        if all(state.is_recovered for state in states):
            rules.append("DEDUP-12")
            if view.snapshot_failed:
                rules.append("DEDUP-11")
        if producer in view.activity.kept:
            rules.append("DEDUP-20")
    view = replace(view, activity=view.activity.judged(producer))
    return Allowed(_connected(view.with_states(producer, after), producer), tuple(rules))


def _connected(view: TopicView, producer: str) -> TopicView:
    return replace(view, activity=view.activity.with_connected(producer))


def purged(view: TopicView, minutes: int, timeout_min: int) -> Allowed[TopicView]:
    """So many minutes passed, and the broker looked for inactive producers. It takes a snapshot without those."""
    activity = view.activity.after(minutes, view.states)
    if not view.enabled:
        return Allowed(replace(view, activity=activity))
    view = unsettled_snapshots(view)
    inactive = frozenset(name for name in view.states if may_be_forgotten(activity, name, timeout_min))
    known = {name for name, states in view.states.items() if all(state.written != NONE for state in states)}
    after = {
        name: states.union(*map(forgotten, states)) if name in inactive else states
        for name, states in view.states.items()
    }
    return Allowed(replace(view, states=after, activity=replace(activity, kept=frozenset(known - inactive))))


def _due_after(view: TopicView, stored: int) -> TopicView:
    return view if view.snapshots is None else replace(view, snapshots=view.snapshots.after(stored))


def unsettled_snapshots(view: TopicView) -> TopicView:
    """The same view when it is unknown which snapshots were taken."""
    return view if view.snapshots is None else replace(view, snapshots=view.snapshots.unsettled())


def replicated(view: TopicView, producers: frozenset[str], stored: int) -> TopicView:
    """The view when so many entries of these producers at another cluster were replicated."""
    return replace(_due_after(view, stored), remote=producers)


def unloaded(view: TopicView) -> Allowed[TopicView]:
    """The topic was reloaded, after an unload or a kill: every state is recovered from the log."""
    recover = partial(observer.recover, may_be_unknown=view.is_crowded)
    after = view.on_each_state(observer.writes_ended)
    after = after.on_each_state(recover) if view.enabled else after
    after = after if view.own_policy is None else switched(after, on=view.own_policy).state
    return Allowed(replace(unsettled_snapshots(disconnected(after)), reloads=view.reloads + 1))


def disconnected(view: TopicView, *producers: str) -> TopicView:
    """The same view when these producers may have been disconnected; without a name, all of them."""
    activity = view.activity.without(*producers) if producers else view.activity.without_all()
    return view if activity is view.activity else replace(view, activity=activity)


def given_policy(view: TopicView, *, on: bool) -> TopicView:
    """The topic got a policy of its own."""
    return replace(view, own_policy=on)


def switched(view: TopicView, *, on: bool) -> Allowed[TopicView]:
    """Deduplication was switched, as the broker reports."""
    if on == view.enabled:
        return Allowed(view)
    view = unsettled_snapshots(view)
    return Allowed(replace(view.on_each_state(partial(observer.switch, on=on)), enabled=on))


def unsettled(view: TopicView) -> list[str]:
    """The producers of which a read of the log would reveal something unknown."""
    return [
        name
        for name, states in view.states.items()
        if len(states) > 1 or any(stored.position is None for state in states for stored in state.entries)
    ]


@carries("DEDUP-07", "DEDUP-13")
def log_read(
    view: TopicView, entries: Sequence[LoggedEntry], *, explained: Mapping[str, ProducerStates] | None = None
) -> Allowed[TopicView] | Broken:
    """The whole log was read back while nothing was in flight. ``explained``: the states of producers whose entries a
    deviation explains."""
    given, explained = view, explained or {}
    for before, after in pairwise(entries):
        if after.position <= before.position:
            return Broken("DEDUP-02", f"the log has {after.position} after {before.position}")
    by_producer: dict[str, list[LoggedEntry]] = {name: [] for name in view.states}
    for logged in entries:
        if logged.producer not in by_producer:
            return Broken(
                "DEDUP-07", f"the log has an entry of producer {logged.producer}, which never sent to this topic"
            )
        by_producer[logged.producer].append(logged)
    for name, found in by_producer.items():
        states = view.states[name]
        after_states = explained.get(name) or frozenset(
            new for state in states for new in observer.read_back(state, found)
        )
        if not after_states:
            broken = diagnosis.for_log(states, name, found, reloads=view.reloads, enabled=view.enabled)

            passed = partial(_read_with, given, entries, explained, name)
            return replace(broken, evidence=WrongLog(given, name, states, found), passed=passed)
        view = view.with_states(name, after_states)
    return Allowed(view)


def _read_with(
    view: TopicView, entries: Sequence[LoggedEntry], explained: Mapping[str, ProducerStates], name: str, part: Part
) -> Allowed[TopicView] | Broken:
    """The same, where a deviation explains the entries of one producer; these are the states after that."""
    assert isinstance(part, frozenset)
    return log_read(view, entries, explained={**explained, name: part})
