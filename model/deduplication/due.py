"""Which deduplication snapshots are due, and whether they are taken (DEDUP-11a).

A snapshot is due after a number of entries, and by a timer. While one is being written, the broker drops another that
becomes due by entries, and the timer's next snapshot covers those entries. So the number of entries is judged from a
moment at which no snapshot was under way: of the entries stored after that, one takes a snapshot as soon as there are
enough of them. The timer is judged by the end of the log, which its snapshot has as its position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from model.events import SnapshotRead
from model.judgement import Broken
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import SnapshotSchedule


@dataclass(frozen=True, slots=True)
class DueSnapshots:
    """What is due of one topic's snapshots.

    ``settled``: the position of the snapshot at the last moment at which none was under way; None: that is not known,
    because the topic was reloaded or switched since, or its snapshots could fail. ``stored``: the entries that were
    confirmed as stored since.
    """

    schedule: SnapshotSchedule
    settled: Position | None = None
    stored: int = 0

    def after(self, stored: int) -> DueSnapshots:
        """The same after so many more entries were stored."""
        return replace(self, stored=self.stored + stored)

    def unsettled(self) -> DueSnapshots:
        """The same when it is not known any more which snapshots were taken."""
        return replace(self, settled=None, stored=0)


@carries("DEDUP-11a")
def awaited(due: DueSnapshots, read: SnapshotRead) -> tuple[DueSnapshots, bool] | Broken:
    """The snapshot after one that was due had time to be taken, and whether one was due."""
    schedule, before = due.schedule, due.settled
    after = replace(due, settled=read.position, stored=0)
    is_due = before is not None and due.stored >= schedule.entries
    if before is not None and is_due and read.position <= before:
        return Broken(
            "DEDUP-11a",
            f"{due.stored} entries were stored after the snapshot at {before}, and none was taken, although one is due "
            f"after {schedule.entries}",
        )
    if schedule.period_s is None or read.last is None:
        return after, is_due
    if read.position < read.last:
        return Broken(
            "DEDUP-11a",
            f"{read.waited_s:.0f} s after the log's end at {read.last}, the snapshot is at {read.position}, although "
            f"the timer takes one every {schedule.period_s:g} s",
        )
    return after, is_due or due.stored > 0
