from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import Acked
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import persisting, placed_by
from model.example.state import Example
from model.example.step import Step

ENTRY = Deviation(
    name="reset-persists-read-position",
    rule="ACK-16",
    also=("ACK-09",),
    statement="If the broker is killed after a reset or a seek, before the next ack is persisted, the message at which the subscription was to begin is acknowledged, and not redelivered.",
    cause="ManagedCursorImpl.internalResetCursor persists the new read position as the mark-delete position (2.10.1, line 1221), and puts the entry before it in memory only. 2.9.1 and 2.10.2 have the same lines; 2.10.3 and 2.11.0 persist the entry before.",
    upstream=("apache/pulsar#18237",),
    side="broker",
    releases=(">=2.6.0,<2.10.3",),
    seen=("2.10.1", "2.6.0"),
    gone=("2.11.0", "3.3.6", "4.0.8"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_reset_that_persists_its_read_position_acknowledges_one_entry_until_the_next_ack",
        by="small history",
        statement="Two entries are acknowledged after the kill, or one after a later ack was persisted.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    for subscription in placed_by(state.past):
        log = state.consumption.log(subscription.topic)
        for one in state.consumption.cursors[subscription].possible:
            if (following := log.after(one.mark_delete)) is not None:
                yield from persisting(state, subscription, frozenset({Acked(following)}))
