from __future__ import annotations

from collections.abc import Sequence

from model.deviation import Deviation, Shadow
from model.deviations.consumers import Elsewhere, acked_elsewhere, acknowledged, is_all_requested, requested
from model.example.state import Example, Past
from model.example.step import Step
from model.log import Position
from model.subscription_operations import AckById
from model.subscriptions.consumers import SHARED, Message
from model.subscriptions.counts import Count
from model.subscriptions.state import Consumption, messages_at

ENTRY = Deviation(
    name="skipped-parts-counted-off-again",
    rule="SERVE-04",
    statement="If an administrator skips the rest of a batch that a consumer has acknowledged in part, or the consumer or another one acknowledges the rest, and the consumer then acknowledges a part of it once more (which may be while the batch is in flight), or requests redelivery of the rest, the earlier parts are subtracted from its unacknowledged messages a second time. The count is too low, even below zero.",
    cause="An ack of a part carries the whole ack set of the batch. Consumer.getAckedCountForBatchIndexLevelEnabled compares it with the acknowledged parts of the cursor, which forgets them when the whole batch is acknowledged. Then all parts in the ack set, or in the redelivery request, count as new, as long as the batch is pending at the consumer. After a skip the cursor forgets them only once mark-delete is persisted.",
    side="broker",
    releases=(">=2.11,<=4.0.8",),
    seen=("4.0.8", "3.3.6", "2.11.0"),
    gone=("4.2.4",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_parts_are_counted_off_again_only_with_a_batch_that_was_skipped_in_part",
        by="small history",
        statement="The count is lower by more than the earlier parts, or without a skip.",
    ),
)

Entry = tuple[str, Position]
"""An entry: its topic, and its position."""


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """How many parts of batches a broker may have subtracted twice, with parts that were acknowledged elsewhere, or in
    several acks. If any were acknowledged by their ids, no ack contains all parts, so the batch stays pending, and the
    parts are subtracted with each further ack."""
    if wrong.of != "at consumer":
        return None
    name, again = wrong.consumer, 0
    in_parts, by_id = set[Entry](), set[Entry]()
    for past, others in acked_elsewhere(state, name):
        before = past.before.consumption
        if acked := acknowledged(past, name):
            entries = {(topic, place.position) for topic, place in acked}
            again += sum(_acked_before(before, name, others, entry) for entry in entries)
            twice = (entries & in_parts) | (entries & _in_flight(before, name))
            again += sum(len(_messages(before, entry)) for entry in twice)
            in_parts |= {entry for entry in entries if _completes(before, name, entry, acked)}
            in_parts -= twice - by_id
            by_id |= entries if isinstance(past.step.operation, AckById) else set()
        elif _is_of_some(past, name):
            batches = {(topic, place.position) for topic, place in requested(past, name) or ()}
            again += sum(_acked_before(before, name, others, entry) for entry in batches)
    return -again, -1


def _is_of_some(past: Past, name: str) -> bool:
    """Whether a consumer of a Shared or Key_Shared subscription requests redelivery of single messages."""
    is_request = requested(past, name) is not None and not is_all_requested(past)
    return is_request and past.before.consumption.consumers[name].kind in SHARED


def _messages(before: Consumption, entry: Entry) -> list[Message]:
    topic, position = entry
    return messages_at(topic, before.log(topic), position)


def _in_flight(before: Consumption, name: str) -> set[Entry]:
    """The entries that were acknowledged while they may have been in flight to this consumer."""
    consumer = before.consumers[name]
    if consumer.is_settled:
        return set()
    here = consumer.subscriptions
    every = (message for one in here for message in before.acked_in_flight.get(one, ()))
    return {(topic, place.position) for topic, place in every}


def _acked_before(before: Consumption, name: str, others: Elsewhere, entry: Entry) -> int:
    """How many messages of a batch a consumer had acknowledged when others acknowledged the rest."""
    batch, elsewhere = _messages(before, entry), others.of(before.consumers[name])
    left = sum(message in elsewhere for message in batch)
    return len(batch) - left if left else 0


def _completes(before: Consumption, name: str, entry: Entry, acked: Sequence[Message]) -> bool:
    """Whether these acks are of all that a consumer has left of a batch of which it acknowledged parts before."""
    batch, pending = _messages(before, entry), before.consumers[name].unacknowledged
    left = [message for message in batch if message in pending]
    return 0 < len(left) < len(batch) and all(message in acked for message in left)
