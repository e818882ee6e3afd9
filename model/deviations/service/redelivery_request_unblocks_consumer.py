from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import at_limit, elsewhere, is_receipt
from model.events import ReceivedMessages, Starved
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.counts import BeyondLimit, Starving
from model.subscriptions.state import Consumption

ENTRY = Deviation(
    name="redelivery-request-unblocks-consumer",
    rule="SERVE-05",
    also=("SERVE-03",),
    statement="A consumer that is blocked at its limit requests redelivery of messages that are not pending at it. The broker no longer counts it as blocked: it sends one message too many (with the classic implementation of Key_Shared as many as there are permits), or, without permits that it had held back, nothing, while the stats say that the consumer is not blocked.",
    cause="Consumer.redeliverUnacknowledgedMessages sets blockedConsumerOnUnackedMsgs to false whatever it took from the pending acks, and grants the permits that came while the consumer was blocked. A dispatch sends at least one message to a consumer with permits (4.0.8); that of the classic implementation of Key_Shared as many as it has permits for (2.10.1). Read in 2.11.0, 3.3.6, 4.2.4 and 5.0.0-M1, too.",
    side="broker",
    releases=(">=2.10.1,<=5.0.0-M1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1", "5.0.0-M1"),
    gone=("5.0.1",),
    occurrence="Every time on 4.0.8; in 3 of 10 replays on 3.3.6.",
    shadow=Shadow(
        name="test_a_consumer_at_its_limit_is_unblocked_only_by_a_redelivery_request_and_for_one_message",
        by="small history",
        statement="A consumer at its limit is sent two messages, or one without a redelivery request, or starves without one.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case BeyondLimit(consumer) if at_limit(state, consumer).is_unblocked and _is_let_in(state, step, consumer):
            return broken.passing()
        case Starving(then, consumers) if consumers and all(_is_unblocked(state, step, then, one) for one in consumers):
            return broken.passing()
        case _:
            return None


def _is_let_in(state: Example, step: Step, name: str) -> bool:
    """Whether it is sent one message too many; or any number by the classic implementation, which looks at permits
    only."""
    consumer = state.consumption.consumers[name]
    is_classic = consumer.kind == "Key_Shared" and not state.consumption.topics[consumer.topics[0]].drains
    messages = step.outcome.messages if isinstance(step.outcome, ReceivedMessages | Starved) else ()
    return is_classic or len({one.position for one in messages}) == 1


def _is_unblocked(state: Example, step: Step, then: Consumption, name: str) -> bool:
    before = at_limit(state, name)
    if before.is_unblocked or not is_receipt(step, name):
        return before.is_unblocked
    skipped = len(elsewhere(state, name).skipped)
    return before.received(state.consumption, then, step, name, skipped).is_unblocked
