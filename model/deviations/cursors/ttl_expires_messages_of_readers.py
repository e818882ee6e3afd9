from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.facts import passed_over_by_expiry, with_non_durable_expired
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.expiry_operations import SetTtl
from model.judgement import Broken

ENTRY = Deviation(
    name="ttl-expires-messages-of-readers",
    rule="ACK-20",
    also=("ACK-17",),
    statement="While a TTL of a topic or its namespace is in force, a connected reader does not receive messages that are older than the TTL and that the broker did not dispatch to it yet.",
    cause="PersistentTopic.checkMessageExpiry expires messages of every subscription, also of non-durable ones, whose cursor is the position of a reader. ManagedCursorImpl.setAcknowledgedPosition moves the read position of that cursor past what expired. The scheduled check does it, and every change of a policy of the topic, which looks for expired messages at once.",
    upstream=("apache/pulsar#26504", "apache/pulsar#26505"),
    side="broker",
    releases=(">=3.0.7,<=4.2.4",),
    seen=("4.2.4", "4.0.8", "3.3.6", "3.0.7"),
    gone=("5.0.1",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_ttl_explains_only_what_connected_readers_lack_of_the_older_messages",
        by="small history",
        statement="A reader passes over younger messages, or it connected after the check.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Where its client reads next is its own position all the same."""
    return passed_over_by_expiry(state, step, broken, _in_force)


def _in_force(past: Past, topic: str) -> int | None:
    """The TTL that the broker may have looked at in a step."""
    return past.after.ttl_of(topic) or past.before.ttl_of(topic)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Other non-durable subscriptions are moved as well."""
    if isinstance(step.operation, SetTtl) and (seconds := state.ttl_of(step.operation.topic)) is not None:
        yield from with_non_durable_expired(state, step, step.operation.topic, seconds)
