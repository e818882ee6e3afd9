from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.cursors.bits import Bits
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, continued_since_load, is_graceful, recovering, reloaded_by
from model.example.state import Example
from model.example.step import Step

ENTRY = Deviation(
    name="batch-index-acks-not-recovered",
    aliases=("batch-acks-lost",),
    rule="ACK-10",
    statement="After a graceful unload, the batch index acks of a partly acknowledged batch are lost, and the broker dispatches these messages again.",
    cause="A cursor that closes writes its batch index acks to the metadata store. If there is no cursor ledger, ManagedCursorImpl.recover restores mark-delete and the ranges, and does not read the batch index acks. Recovery from a cursor ledger reads them, so they survive a kill. Also reported as apache/pulsar#20585 and apache/pulsar#14982; fixed by apache/pulsar#26474, after 5.0.0-M1. In addition, batch index acks alone are not persisted at all, because asyncDelete returns early while there is no range of whole entries (apache/pulsar#26498). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    upstream=("apache/pulsar#26475",),
    side="broker",
    releases=(">=2.6.0,<=5.0.0-M1",),
    seen=("5.0.0-M1", "4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.7.4", "2.6.0"),
    gone=("5.0.1",),
    shadow=Shadow(name="unload-loses-ranges", statement="An unload loses the individually acknowledged entries, too."),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """A former owner that continued may have closed the cursor, too."""
    for subscription in reloaded_by(state.past):
        if is_graceful(step) or continued_since_load(before(state), subscription.topic) is not None:
            possible = state.consumption.cursors[subscription].possible
            lost = (replace(one, parts=Bits()) for one in possible if one.parts)
            yield from recovering(state, subscription, lost)
