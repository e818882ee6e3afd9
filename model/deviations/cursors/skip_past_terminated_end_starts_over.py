from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import skip_starting_over
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import skipping_on_reopened
from model.example.state import Example
from model.example.step import Step

ENTRY = Deviation(
    name="skip-past-terminated-end-starts-over",
    rule="ACK-04",
    also=("ACK-10", "SERVE-04"),
    statement="After a topic was terminated, whose last ledger was empty, and reloaded, a skip of more messages than there are left does not acknowledge them all: where it reaches the end, it starts over at the beginning of the last ledger.",
    cause="ManagedLedgerImpl.initialize drops the empty ledger from the list, and keeps it as the current one. getPositionAfterN stops at the current ledger, which it never meets, and takes the last one of the list as the one that follows (3.3.6, line 3600, since apache/pulsar#17971).",
    upstream=("apache/pulsar#17971",),
    side="broker",
    releases=("==2.10.5", "==2.11.0", ">=3.3.6,<=5.0.1"),
    seen=("4.0.8", "3.3.6", "4.2.4", "2.11.0", "2.10.5", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_skip_past_the_end_of_a_terminated_topic_starts_over_and_nothing_else_is_left",
        by="small history",
        statement="A skip of no more messages than there are leaves some, or the topic was not terminated and reloaded.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    return skipping_on_reopened(state, step, skip_starting_over)
