"""What is judged of a topic's deduplication snapshot when it is read (DEDUP-10, DEDUP-11a, DEDUP-12).

:mod:`model.deduplication.observer` judges one producer's id in it, and :mod:`model.deduplication.due` whether it was
due. This module adds what concerns the whole snapshot: its room, the names in it, and which snapshot it is.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields

from model.deduplication import diagnosis, due, kept, observer
from model.deduplication.producer_state import NONE
from model.deduplication.topic_observer import TopicView, account_for
from model.events import SnapshotRead
from model.excuses import requires
from model.excuses.deduplication import (
    DEDUPLICATION_OFF_KEEPS_SNAPSHOT,
    EARLIER_SNAPSHOT_SHOWN,
    MARKER_PRODUCER_IN_SNAPSHOT,
    SNAPSHOT_POSITION_AHEAD,
)
from model.judgement import Allowed, Broken
from model.vocabulary import REPLICATOR

MARKER_PRODUCER = "pulsar.marker"
"""The producer name in the metadata of markers, all of which have sequence id 0."""

Verdict = Allowed[TopicView] | Broken


def snapshot_read(view: TopicView, read: SnapshotRead, *, is_due: bool = False) -> Verdict:
    """The stored snapshot was read: its position, and the highest persisted id of each producer in it.

    A producer may be missing only if it has no entry up to the position, or if there are more producers than the
    maximum. Remote producers and their replicator are not judged here.
    ``is_due``: a due snapshot had time to be taken, and none could fail.
    """
    if view.keeps_snapshot and not view.enabled and read.producers:
        return _kept(view, read)
    if len(read.producers) > view.snapshot_room:
        because = f"the snapshot has {len(read.producers)} producers, above the limit of {view.snapshot_room}"
        return Broken("DEDUP-10", because)
    judged = _without_markers(view, read)
    if isinstance(judged, Broken):
        return _of_an_earlier_one(view, read, judged) if judged.deviation is None else judged
    if not (is_due and view.enabled and judged.state.snapshots is not None):
        return judged
    awaited = due.awaited(judged.state.snapshots, read, view.known)
    if isinstance(awaited, Broken):
        return awaited
    exercised = (*judged.exercised, *awaited.exercised)
    deviations = (*judged.deviations, *awaited.deviations)
    return Allowed(replace(judged.state, snapshots=awaited.state), exercised, deviations)


def _kept(view: TopicView, read: SnapshotRead) -> Verdict:
    """A snapshot from before deduplication was switched off, by a deviation."""
    as_before = replace(view.on_each_state(lambda state: (kept.as_before(state),)), keeps_snapshot=False)
    judged = snapshot_read(as_before, read)
    if isinstance(judged, Broken):
        return judged
    because = f"deduplication is off, and there is a snapshot at {read.position}"
    return requires(DEDUPLICATION_OFF_KEEPS_SNAPSHOT, view, view.known, because, "DEDUP-10")


def _of_an_earlier_one(view: TopicView, read: SnapshotRead, broken: Broken) -> Verdict:
    """The ids in a snapshot are those of an earlier one since the topic was loaded, by a deviation.

    Between two snapshots is at least the number of entries after which one is due.
    """
    if view.snapshots is None:
        return broken
    entries = (one for states in view.states.values() for state in states for one in state.entries)
    up_to = sorted({one.position for one in entries if one.position is not None and one.position <= read.position})
    for earlier in up_to[: -view.snapshots.schedule.entries]:
        is_since = view.loaded_after is None or earlier > view.loaded_after
        if is_since and isinstance(_without_markers(view, with_fields(read, position=earlier)), Allowed):
            return requires(EARLIER_SNAPSHOT_SHOWN, view, view.known, broken.because)
    return broken


def _without_markers(view: TopicView, read: SnapshotRead) -> Verdict:
    """The snapshot but for the producer of markers, which it has by a deviation."""
    if not (view.has_markers and view.reloads and read.producers.get(MARKER_PRODUCER) == 0):
        return _of_producers(view, read, is_crowded=view.is_crowded)
    producers = {name: highest for name, highest in read.producers.items() if name != MARKER_PRODUCER}
    is_crowded = view.names + 1 > view.snapshot_room
    because = f"the snapshot at {read.position} has {MARKER_PRODUCER}"
    found = requires(MARKER_PRODUCER_IN_SNAPSHOT, view, view.known, because)
    if isinstance(found, Broken):
        return found
    judged = _of_producers(view, with_fields(read, producers=producers), is_crowded=is_crowded)
    return judged if isinstance(judged, Broken) else judged.after(found)


def _of_producers(view: TopicView, read: SnapshotRead, *, is_crowded: bool) -> Verdict:
    """The producers in the snapshot, of which it has all unless they are too many (``is_crowded``)."""
    position, producers = read.position, read.producers
    deviations: tuple[str, ...] = ()
    of_remote = {name for name in producers if view.remote and name.startswith(REPLICATOR)} | view.remote
    for name in dict.fromkeys([*view.states, *producers]):
        if name in of_remote or (is_crowded and name not in producers):
            continue
        highest = producers.get(name, NONE)
        what = f"the snapshot at {position} {f'has {highest} for' if name in producers else 'leaves out'} {name}"
        after = frozenset(
            new
            for state in view.state(name)
            for new in observer.in_snapshot(state, highest, position, ledger_room=view.ledger_room)
        )
        if not after:
            return diagnosis.for_snapshot(view.state(name), what, highest, position)
        accounted = account_for(after, view.known)
        if isinstance(accounted, Broken):
            is_ahead = accounted.deviation == SNAPSHOT_POSITION_AHEAD
            return (
                replace(accounted, rule="DEDUP-10", because=f"{what}: {accounted.because}") if is_ahead else accounted
            )
        after, needed = accounted
        deviations += needed
        view = view.with_states(name, after)
    return Allowed(view, ("DEDUP-10",) if producers else (), deviations)
