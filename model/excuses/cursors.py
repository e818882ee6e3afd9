"""The deviations from document 003: acknowledgment and cursors."""

from __future__ import annotations

from model.deviation import Deviation, Shadow

REPLAY_READ_OUTLIVES_CONSUMERS = "replay-read-outlives-consumers"

DEVIATIONS = (
    Deviation(
        name=REPLAY_READ_OUTLIVES_CONSUMERS,
        aliases=("replay-outlives-consumers",),
        rule="ACK-12",
        also=("ACK-01",),
        statement="If the last consumer of a Shared or Key_Shared subscription leaves during a replay read, or while what was read waits to be dispatched, the next consumers receive these messages twice, or once if a reset has acknowledged them meanwhile.",
        cause="For the first consumer of an empty dispatcher, PersistentDispatcherMultipleConsumers.addConsumer clears the replay queue and rewinds the cursor, or does so after a pending read. readEntriesComplete (4.0.8, line 695) drops the result and rewinds only for a normal read. The result of a replay read goes to the new consumer, who receives the same messages again from the cursor. So does that of a normal read that waits for the dispatcher's thread: it counts as complete (havePendingRead) before. apache/pulsar#10662 proposed a fix in 2021 and was not merged; apache/pulsar#23803 is about the same race in Key_Shared. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
        upstream=("apache/pulsar#10662", "apache/pulsar#23803"),
        side="broker",
        releases=(">=2.11,<=5.0.1",),
        seen=("4.0.8", "5.0.0-M1", "5.0.1"),
        occurrence="Rare; every time with the failpoint `read-slow`. Delayed messages are replayed when their time comes: with the failpoint, a reset then leaves one to the next consumer.",
        shadow=Shadow(
            name="leaver-given-twice",
            statement="Messages that were pending at the last consumer that left, and not in the replay queue, are dispatched twice.",
        ),
    ),
)
