from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.cursors.cursor import killed
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, recovered, reloaded_by, with_cursor
from model.example.deployment import with_store
from model.example.state import Example
from model.example.step import Step
from model.operations import Unload

ENTRY = Deviation(
    name="unload-without-session-loses-acks",
    rule="ACK-10",
    statement="The session of a broker in the metadata store has expired. An unload then loses the acks and skips that were not persisted before, as a kill does, and still answers success.",
    cause="Not traced. The cursor is recovered from its own ledger, with the state that was last written there: a write to the metadata store needs the session.",
    side="broker",
    releases=(">=4.0.8,<=4.2.4",),
    seen=("4.0.8", "4.2.4"),
    occurrence="In 4 of 4 replays on each of them.",
    shadow=Shadow(
        name="test_an_unload_without_a_session_loses_only_what_was_not_persisted",
        by="small history",
        statement="An ack that was persisted is lost, or one is lost by an unload although the session has not expired.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The cursor is recovered as after a kill, and its state may be in its own ledger."""
    then = with_store(before(state), step.at)
    if not isinstance(step.operation, Unload) or not then.service.are_sessions_expired:
        return
    for subscription in reloaded_by(state.past):
        persisting = then.consumption.topics[subscription.topic].persisting
        states = killed(then.consumption.cursors[subscription], step.at, persisting).possible
        cursor = recovered(state.consumption.cursors[subscription], states)
        yield with_cursor(state, subscription, replace(cursor, was_opening=True))
