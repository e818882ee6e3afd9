from __future__ import annotations

from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.subscription_operations import CreateSubscription
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="deleted-cursor-updates-metadata",
    rule="SERVE-01",
    statement="If a consumer acknowledges for the first time and unsubscribes at once, a request to create the subscription again, at another position than the latest, can fail with 412. The subscription exists then all the same.",
    cause="The first ack creates the cursor's ledger. ManagedLedgerImpl.asyncDeleteCursor does not wait for that, and deletes the cursor's metadata. The deleted cursor stores the new ledger's id at the same path afterwards (ManagedCursorImpl.switchToNewLedger). If the subscription was created again by then, the versions of both are 0, so this succeeds. The new cursor's reset fails with BadVersion: \"unable to persist readPosition for cursor reset\". Its log was read on 4.0.8.",
    side="broker",
    seldom=(">=4.0.8,<=5.0.1",),
    seen=("4.0.8", "4.2.4", "5.0.1"),
    occurrence="In 9 of 24 replays of its history on 4.0.8, in 2 of 16 on 4.2.4, in 3 of 16 on 5.0.1, and in none of 16 on 3.3.6.",
    shadow=Shadow(
        name="test_only_a_subscription_deleted_at_its_first_acks_may_not_be_created_again",
        by="small history",
        statement="A subscription whose acks had all arrived before it was deleted is not created again, with the same error.",
    ),
)
_NOT_PERSISTED = "unable to persist readPosition for cursor reset"


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case CreateSubscription(topic, name), Refused("412", message) if _NOT_PERSISTED in message:
            parts = [one for one in state.consumption.parts_of(topic) if _acks_at_deletion(state, one, name)]
            return broken.passing().then(lambda after: Allowed(_untracked(after, parts))) if parts else None
        case _:
            return None


def _acks_at_deletion(state: Example, topic: str, name: str) -> bool:
    """Whether acks of a subscription may have been under way when it was deleted last."""
    subscription = SubscriptionId(topic, name)
    for past in state.trace:
        if subscription in past.before.consumption.cursors:
            return bool(past.before.consumption.cursors[subscription].unsure)
    return False


def _untracked(state: Example, topics: list[str]) -> Example:
    """The subscription exists, and nobody knows where it begins."""
    consumption = state.consumption
    for topic in topics:
        consumption = consumption.with_untracked(topic)
    return replace(state, consumption=consumption)
