from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import created_at
from model.example.state import Example
from model.example.step import Step
from model.subscriptions.counts import Count

ENTRY = Deviation(
    name="last-entry-not-in-backlog",
    aliases=("part-off-backlog", "partial-batch-off-backlog"),
    rule="SERVE-04",
    statement="A non-durable subscription that begins at the last entry of a topic does not count it in its backlog, which stays too small by one.",
    cause="NonDurableCursorImpl.recoverCursor takes a backlog of 0 unless the read position is before the last entry (compareTo, by the byte code of 2.11.0). If it is the last entry, that one is left out. With two entries the backlog is right.",
    side="broker",
    releases=(">=2.6.2,<=2.11.0",),
    seen=("2.11.0", "2.10.1", "2.9.0", "2.9.1", "2.8.2", "2.7.4", "2.6.2"),
    gone=("3.3.6", "4.0.8"),
    occurrence="Every time, before any ack: in 12 of 12 and in 2 of 2 replays on 2.11.0; with a second entry in 0 of 5.",
    shadow=Shadow(name="backlog-of-messages", statement="The backlog counts messages instead of entries."),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    created = created_at(state, wrong.subscription)
    if wrong.of != "backlog" or created is None:
        return None
    cursor, log = created.after.consumption.cursors[wrong.subscription], created.after.consumption.log
    is_last = any(one.count_left(log(wrong.subscription.topic)) == 1 for one in cursor.possible)
    return (-1, -1) if is_last and not cursor.durable else None
