from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.expiry import NotExpired
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="expiry-search-ends-with-closed-ledger",
    rule="ACK-17",
    statement="Messages that were published long before they were stored, such as replicated ones, expire only in the first ledger of their topic, with the first message after it. Later ones stay in the backlog until that ledger is deleted.",
    cause="PersistentMessageExpiryMonitor.expireMessages searches with PersistentMessageFinder.findMessages since apache/pulsar#24622. Its range ends with the first ledger that was closed after the time in question (getFindPositionRange), because it takes no message of a later ledger to be older; the search also tests the entry after the range. Read in the byte code of 5.0.1; 4.0.8 searches among all entries.",
    upstream=("apache/pulsar#24622",),
    side="broker",
    releases=(">=4.2.4,<=5.0.1",),
    seen=("5.0.1", "4.2.4"),
    gone=("4.0.8",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_what_is_after_a_closed_ledger_is_not_searched",
        by="small history",
        statement="More messages do not expire than later ledgers have, or the topic has one ledger.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """What is left is in later ledgers."""
    match broken.evidence:
        case NotExpired(subscription, last, left):
            log = state.consumption.log(subscription.topic)
            later = sum(log.ledgers[0] < one.ledger and one <= last for one in log.entries)
            return broken.passing() if left <= later else None
        case _:
            return None
