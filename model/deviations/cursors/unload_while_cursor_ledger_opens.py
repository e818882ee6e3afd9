from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, is_graceful, recovering, reloaded_by
from model.example.state import Example
from model.example.step import Step

ENTRY = Deviation(
    name="unload-while-cursor-ledger-opens",
    aliases=("moved-as-ledger-opens",),
    rule="ACK-10",
    statement="A graceful unload within about 10 ms of the first ack after a topic was loaded loses this ack, although the broker confirmed it.",
    cause="The first ack after a load opens a cursor ledger and waits for it as a pending operation. ManagedCursorImpl.asyncClose does not wait. It persists the mark-delete position of the last completed operation (lastMarkDeleteEntry), and the ranges from after the ack, which no longer contain what mark-delete passed. Flaky tests upstream show the race between closing and opening (apache/pulsar#18310, apache/pulsar#18362), but not this loss. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
    side="broker",
    releases=(">=2.10.0,<=4.2.4", "==2.6.0"),
    seen=("4.0.8", "3.3.6", "2.10.1", "2.10.0", "2.6.0", "4.2.4"),
    shadow=Shadow(
        name="opening-loses-ranges",
        statement="The same unload loses the individually acknowledged entries, too.",
        missed_before=True,
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """An earlier mark-delete position is persisted, with the present ranges."""
    for subscription in reloaded_by(state.past):
        then, possible = (
            before(state).consumption.cursors[subscription],
            state.consumption.cursors[subscription].possible,
        )
        if is_graceful(step) and then.ledger.is_opening(step.at):
            earlier = {one.mark_delete for moment in then.past for one in moment.states}
            for mark_delete in sorted(earlier, reverse=True):
                outdated = (replace(one, mark_delete=mark_delete) for one in possible if mark_delete < one.mark_delete)
                yield from recovering(state, subscription, outdated)
