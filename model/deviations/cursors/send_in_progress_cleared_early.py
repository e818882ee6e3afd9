from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.consumers import sent, since_subscribed
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions import invariant
from model.subscriptions.consumers import Message
from model.subscriptions.counts import Count, SentAgain
from model.subscriptions.state import Consumption

ENTRY = Deviation(
    name="send-in-progress-cleared-early",
    aliases=("replayed-beside-news",),
    rule="ACK-12",
    also=("SERVE-04",),
    statement="Messages that are replayed, or delayed messages whose time comes, while the broker dispatches new messages of a Shared or Key_Shared subscription are read and dispatched twice, the second time at once or when there are permits again.",
    cause="PersistentDispatcherMultipleConsumers (of 4.0 both implementations) marks a dispatch in progress with one flag (sendInProgress). The end of one dispatch clears it although the result of another read still waits (readEntriesComplete). The next read then replays messages that are about to be dispatched, which are in the replay queue until then. Without permits they return to that queue once more. The consumer's count of unacknowledged messages rises twice, and an ack lowers it once.",
    side="broker",
    releases=("<4.0",),
    switched_on={CLASSIC: (">=4.0,<=4.0.8",)},
    seldom=(">=4.0,<=4.0.8",),
    seen=("3.3.6", "4.0.8 classic", "4.0.4", "4.0.8"),
    occurrence="On 4.0.8 classic in 7 of 12 plays: `pulsar-conformance replay docs/histories/ACK-12-on-4.0.8-classic.json --broker 4.0.8 --setting subscriptionKeySharedUseClassicPersistentImplementation=true`. Rarely on 4.0.8 (a soak of half an hour shows it once or not at all), once on 4.0.4.",
    shadow=Shadow(
        name="test_a_message_that_was_not_replayed_is_not_dispatched_twice",
        by="small history",
        statement="A new message is dispatched twice while the topic grows.",
        missed_before=True,
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """A message that was sent twice counts twice."""
    if wrong.of != "at consumer":
        return None
    name = wrong.consumer
    steps = [(past.before.consumption, past.step) for past in since_subscribed(state, name)]
    return 1, sum(_sent_again(before, one, name) for before, one in (*steps, (state.consumption, step)))


def _sent_again(before: Consumption, step: Step, name: str) -> int:
    """How many messages a step delivered to a consumer that had them."""
    had, again = set[Message](before.consumers[name].unacknowledged), 0
    for message in sent(before, step, name):
        again += message in had
        had.add(message)
    return again


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case SentAgain(then, subscription, name, message):
            may_be = invariant.may_be_replayed_twice(then, subscription, name, message)
            return broken.passing() if may_be else None
        case _:
            return None
