from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import NO_ELEMENT, failed, tracked
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Skip

ENTRY = Deviation(
    name="skip-after-all-trimmed-fails",
    rule="SERVE-01",
    statement="A topic is terminated, all of its messages are trimmed, and it is reloaded. From then on, a skip is answered with an internal error (500).",
    cause="Such a topic has no ledger. PersistentSubscription.skipMessages (4.0.8, line 766) ends with a NoSuchElementException, as ManagedLedgerImpl.getPositionAfterN does on older releases, which asks an empty map for its last key. A topic that never had messages answers the skip.",
    side="broker",
    releases=(">=3.3.6,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "4.2.4", "5.0.0-M1", "4.0.4", "5.0.1"),
    gone=("2.11.0",),
    occurrence="In 3 of 3 replays on each of these releases, in 12 steps.",
    shadow=Shadow(
        name="test_a_skip_fails_only_on_a_terminated_topic_whose_ledgers_were_all_deleted",
        by="small history",
        statement="A skip fails so before the topic is terminated, trimmed or reloaded.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match failed(step, broken, Skip, "/skip/"):
        case (topic, message) if isinstance(broken.evidence, Refused) or message == NO_ELEMENT:
            one = tracked(state, topic)
            return broken.passing() if one is not None and one.is_reopened and one.is_all_deleted else None
        case _:
            return None
