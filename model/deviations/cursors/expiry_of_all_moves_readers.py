from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.facts import passed_over_by_expiry, with_non_durable_expired
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.expiry_operations import ExpireOlder
from model.judgement import Broken

ENTRY = Deviation(
    name="expiry-of-all-moves-readers",
    rule="ACK-20",
    also=("ACK-17",),
    statement="An administrator expires the older messages of all subscriptions of a topic. A connected reader does not receive those that the broker did not dispatch to it yet.",
    cause="PersistentTopicsBase.internalExpireMessagesForAllSubscriptions expires messages of every subscription that the topic has, also of non-durable ones, whose cursor is the position of a reader. apache/pulsar#26505 changes the check of the TTL only.",
    upstream=("apache/pulsar#26504",),
    side="broker",
    releases=(">=3.0.7,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8", "3.3.6", "3.0.7"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_ttl_explains_only_what_connected_readers_lack_of_the_older_messages",
        by="small history",
        statement="A reader passes over younger messages, or the request was for one subscription.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return passed_over_by_expiry(state, step, broken, _requested)


def _requested(past: Past, topic: str) -> int | None:
    """How old messages had to be that a step expired in all subscriptions of a topic."""
    match past.step.operation:
        case ExpireOlder(one, None, seconds) if one == topic:
            return seconds
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Other non-durable subscriptions are moved as well."""
    match step.operation:
        case ExpireOlder(topic, None, seconds):
            yield from with_non_durable_expired(state, step, topic, seconds)
        case _:
            return
