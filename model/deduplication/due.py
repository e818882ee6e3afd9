"""Due deduplication snapshots, and whether the broker takes them (DEDUP-11a).

A snapshot is due after a number of entries, and by a timer. While a snapshot is in progress, the broker drops another
that becomes due by entries, and the timer's next snapshot covers those. So entries are counted from a moment without a
snapshot in progress: once enough entries are stored after that, a snapshot must follow. The timer is judged by the end
of the log, which must be the position of its snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from model.events import SnapshotRead
from model.judgement import Allowed, Broken, judges_waits
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import SnapshotSchedule


@dataclass(frozen=True, slots=True)
class DueSnapshots:
    """The due snapshots of one topic.

    ``settled``: the position of the snapshot when none was last in progress; None: unknown, because the topic was
    reloaded or switched since, or its snapshots could fail. ``stored``: the number of entries confirmed since.
    """

    schedule: SnapshotSchedule
    settled: Position | None = None
    stored: int = 0

    def after(self, stored: int) -> DueSnapshots:
        return replace(self, stored=self.stored + stored)

    def unsettled(self) -> DueSnapshots:
        """The same when it is unknown which snapshots were taken."""
        return replace(self, settled=None, stored=0)


@dataclass(frozen=True, slots=True)
class MissedByTimer:
    """The timer has taken no snapshot since the one at this position."""

    position: Position


@carries("DEDUP-11a")
@judges_waits
def awaited(due: DueSnapshots, read: SnapshotRead) -> Allowed[DueSnapshots] | Broken:
    """Judges a snapshot that had time to be taken; it exercises the rule if one was due."""
    schedule, before = due.schedule, due.settled
    after = replace(due, settled=read.position, stored=0)
    is_due = before is not None and due.stored >= schedule.entries
    if before is not None and is_due and read.position <= before:
        return Broken(
            "DEDUP-11a",
            f"{due.stored} entries were stored after the snapshot at {before}, and none was taken, although one is due "
            f"after {schedule.entries}",
        )
    rules = ("DEDUP-11a",)
    if schedule.period_s is None or read.last is None:
        return Allowed(after, rules if is_due else ())
    if read.position < read.last:
        return Broken(
            "DEDUP-11a",
            f"{read.waited_s:.0f} s after the log's end at {read.last}, the snapshot is at {read.position}, although "
            f"the timer takes one every {schedule.period_s:g} s",
            evidence=MissedByTimer(read.position),
        ).passing_to(after)
    return Allowed(after, rules if is_due or due.stored > 0 else ())
