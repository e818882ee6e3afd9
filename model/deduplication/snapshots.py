"""What is judged of a topic's deduplication snapshot when it is read (DEDUP-10, DEDUP-11a, DEDUP-12).

:mod:`model.deduplication.observer` judges one producer's id in it, and :mod:`model.deduplication.due` whether it was
due. This module adds what concerns the whole snapshot: its room, and the names in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from model.deduplication import diagnosis, due, observer
from model.deduplication.producer_state import NONE
from model.deduplication.topic_observer import TopicView
from model.events import SnapshotRead
from model.judgement import Allowed, Broken, in_turn
from model.vocabulary import REPLICATOR

Verdict = Allowed[TopicView] | Broken


@dataclass(frozen=True, slots=True)
class WrongId:
    """A snapshot has a wrong id for a producer (-1: none)."""

    topic: TopicView
    read: SnapshotRead
    producer: str
    highest: int


def snapshot_read(view: TopicView, read: SnapshotRead, *, is_due: bool = False) -> Verdict:
    """The stored snapshot was read: its position, and the highest persisted id of each producer in it.

    A producer may be missing only if it has no entry up to the position, or if there are more producers than the
    maximum. Remote producers and their replicator are not judged here.
    ``is_due``: a due snapshot had time to be taken, and none could fail.
    """
    if len(read.producers) > view.snapshot_room:
        because = f"the snapshot has {len(read.producers)} producers, above the limit of {view.snapshot_room}"
        return Broken("DEDUP-10", because)
    judged = ids_read(view, read)
    return judged.then(lambda after: _awaited(after, read)) if is_due and view.enabled else judged


def _awaited(view: TopicView, read: SnapshotRead) -> Verdict:
    if view.snapshots is None:
        return Allowed(view)
    return due.awaited(view.snapshots, read).then(lambda after: Allowed(replace(view, snapshots=after)))


def ids_read(view: TopicView, read: SnapshotRead) -> Verdict:
    """The ids in the snapshot. It has all producers unless they are too many."""
    of_remote = {name for name in read.producers if view.remote and name.startswith(REPLICATOR)} | view.remote
    names = [name for name in dict.fromkeys([*view.states, *read.producers]) if name not in of_remote]
    judged = in_turn(view, [_id_read(name, read) for name in names])
    return judged.then(lambda after: Allowed(after, ("DEDUP-10",) if read.producers else ()))


def _id_read(name: str, read: SnapshotRead) -> Callable[[TopicView], Verdict]:
    def judged(view: TopicView) -> Verdict:
        if view.is_crowded and name not in read.producers:
            return Allowed(view)
        highest, states = read.producers.get(name, NONE), view.state(name)
        has = f"has {highest} for" if name in read.producers else "leaves out"
        what = f"the snapshot at {read.position} {has} {name}"
        after = frozenset(state for state in states if observer.may_have(state, highest, read.position))
        if after:
            return Allowed(view.with_states(name, after))
        is_kept = name in view.activity.kept
        broken = diagnosis.for_snapshot(states, what, highest, read.position, is_kept=is_kept)
        return replace(broken, evidence=WrongId(view, read, name, highest)).passing_to(view)

    return judged
