from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.cursors.row import Row
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import with_cursor
from model.example.state import Example
from model.example.step import Step
from model.subscription_operations import Skip, SkipAll
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="skip-rate-limited",
    rule="ACK-16",
    statement="Skipping messages, or clearing the backlog, is answered as done although the rate limiter for acks kept the broker from persisting it. A kill before the next flush undoes it.",
    cause="PersistentSubscription.skipMessages and clearBacklog end in ManagedCursorImpl.asyncMarkDelete, which asks the same rate limiter as every ack, and completes at once if that rejects. The same as apache/pulsar#26484 for acks. Read in 2.6.0, 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
    upstream=("apache/pulsar#26484",),
    side="broker",
    releases=(">=2.6.0,<=5.0.1", "==2.5.1"),
    seen=("4.0.8", "2.5.1", "5.0.1"),
    occurrence="Every time, if an ack was persisted in the interval before it.",
    shadow=Shadow(
        name="skip-never-persisted",
        statement="A skip is not persisted, even if there is no rate limit.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The skip is persisted as late as an ack, and so are those before it."""
    match step.operation:
        case Skip(topic, name) | SkipAll(topic, name):
            subscription = SubscriptionId(topic, name)
            cursor = state.consumption.cursors.get(subscription)
            is_limited = cursor is not None and state.consumption.topics[topic].persisting.interval_ms > 0
            if cursor is not None and is_limited and any(moment.is_confirmed for moment in cursor.past):
                late = (replace(moment, is_confirmed=False) for moment in cursor.past)
                yield with_cursor(state, subscription, replace(cursor, past=Row.of(*late)))
        case _:
            pass
