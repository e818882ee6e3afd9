from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.consumers import sent, since_subscribed
from model.deviations.looks import (
    has_dispatched,
    last_of,
    leavers,
    looks,
    may_be_ready,
    names_of,
    permits_of,
    since_look,
)
from model.events import DueReceived
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscription_operations import ReceiveDue
from model.subscriptions import invariant, recently_joined
from model.subscriptions.consumers import Message
from model.subscriptions.counts import Count, SentAgain
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="send-in-progress-cleared-early",
    aliases=("replayed-beside-news",),
    rule="ACK-12",
    also=("SERVE-04",),
    statement="Messages that are replayed, or delayed messages whose time comes, while the broker dispatches new messages of a Shared or Key_Shared subscription are read and dispatched twice, the second time at once or when there are permits again.",
    cause="PersistentDispatcherMultipleConsumers (of 4.0 both implementations) marks a dispatch in progress with one flag (sendInProgress). The end of one dispatch clears it although the result of another read still waits (readEntriesComplete). The next read then replays messages that are about to be dispatched, which are in the replay queue until then. Without permits they return to that queue once more. The consumer's count of unacknowledged messages rises twice, and an ack lowers it once.",
    searched="2026-11-30: `sendInProgress replay dispatched twice`; nearest is apache/pulsar#18289, which repairs the same flag in the streaming dispatcher.",
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
        case SentAgain() as again if _may_be_replayed_twice(state, step, again):
            return broken.passing()
        case _:
            return None


def _may_be_replayed_twice(state: Example, step: Step, again: SentAgain) -> bool:
    """Whether a consumer may receive a message once too often, from a second replay read.

    Both reads dispatch it by its hash, so to the same consumer. Only the classic implementation may have reassigned the
    hash to a consumer that joined in between.
    """
    then, subscription, position = again.state, again.subscription, again.message[1].position
    has_moved = not then.topics[subscription.topic].drains and again.consumer in then.keyed_of(subscription).joined
    if again.message not in then.consumers[again.consumer].unacknowledged and not has_moved:
        return False
    replayed = _beside_new_messages(state, subscription, step, then.log(subscription.topic).last, again)
    return position in replayed or position in _read_twice(state, subscription)


def _read_twice(state: Example, subscription: SubscriptionId) -> set[Position]:
    """The entries that were replayed together with new messages before the last look. They may have been read twice,
    and the second copy waits until their consumer has permits."""
    twice = set[Position]()
    for past, outcome in reversed(list(looks(state, subscription))):
        without_permits = {read.consumer for read in outcome.consumers if read.permits <= 0}
        got = past.after.consumption.keyed_of(subscription).got
        replayed = _replayed(past.before, subscription, past.step, None)
        twice = {at for at in twice - replayed if got.get(at) in without_permits}
        last = last_of(past.after, subscription)
        twice |= _beside_new_messages(past.before, subscription, past.step, last, None)
    return twice


def _beside_new_messages(
    state: Example, subscription: SubscriptionId, step: Step, last: Position, until: SentAgain | None
) -> set[Position]:
    """The entries that were replayed since the last look with deliveries, if the broker read others for the first time.

    That may be new messages, or all of them: it had not read to the end since the subscription began or was reset. The
    broker may then have read the replay queue during a dispatch, and read these entries twice. A second copy without
    permits returns to the replay queue.
    """
    seen = _seen_to(state, subscription)
    never_waited = not any(outcome.is_waiting for _, outcome in looks(state, subscription))
    has_news = seen is not None and (seen != last or never_waited)
    return _replayed(state, subscription, step, until) if has_news else set()


def _seen_to(state: Example, subscription: SubscriptionId) -> Position | None:
    """The last entry of the log at the last look with deliveries, or at the first look; None if there was no look."""
    seen = None
    for past, outcome in looks(state, subscription):
        seen = last_of(past.after, subscription)
        if has_dispatched(outcome):
            break
    return seen


def _replayed(state: Example, subscription: SubscriptionId, step: Step, until: SentAgain | None) -> set[Position]:
    """The entries that were delivered from the replay queue since the last look, in this step too, ``until`` a consumer
    was sent a message again."""
    replayed, seen = set[Position](), _seen_to(state, subscription)
    if seen is None:
        return replayed
    may_have_waited = _Waiting.at(state, subscription, seen)
    before = [(past.before, past.step) for past in since_look(state, subscription)][::-1]
    for example, one in (*before, (state, step)):
        then = example.consumption
        topic, got, due = then.topics[subscription.topic], dict(then.keyed_of(subscription).got), then.due(subscription)
        pending = {message for _, consumer in then.consumers_of(subscription) for message in consumer.unacknowledged}
        for name, message in _delivered(example, one, subscription):
            position = message[1].position
            is_end = until is not None and one is step and (name, message) == (until.consumer, until.message)
            if is_end and message in pending:
                return replayed
            if (
                message in pending
                or due.get(message) in ("left", "nacked")
                or topic.is_delayed(position)
                or position <= seen
                or any(position < later for later, receiver in got.items() if receiver == name)
                or may_have_waited.of(then, name, position, got)
            ):
                replayed.add(position)
            pending.add(message)
            got |= {position: name} if isinstance(one.operation, ReceiveDue) else {}
    return replayed


def _delivered(state: Example, step: Step, subscription: SubscriptionId) -> Iterator[tuple[str, Message]]:
    """What a step delivered, and to which consumers, in the order in which they are judged."""
    names = names_of(state, subscription)
    order = [one.consumer for one in step.outcome.consumers] if isinstance(step.outcome, DueReceived) else sorted(names)
    return ((name, message) for name in order if name in names for message in sent(state.consumption, step, name))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Why a new entry may have been put in the replay queue, because its consumer could not take it at first.

    The consumer was recently joined, its hash was draining, or it had no permits left while others had. Or another one
    had the entry, and left.
    """

    subscription: SubscriptionId
    seen: Position
    permits: Mapping[str, int]
    ready: frozenset[str]
    recent: frozenset[str]
    has_ready_leavers: bool

    @staticmethod
    def at(state: Example, subscription: SubscriptionId, seen: Position) -> _Waiting:
        look = next((past for past, _ in looks(state, subscription)), None)
        recent = frozenset[str]() if look is None else recently_joined.recent(look.after.consumption, subscription)
        has_ready_leavers = any(may_be_ready for _, may_be_ready in leavers(state, subscription))
        ready = may_be_ready(state, subscription)
        return _Waiting(subscription, seen, permits_of(state, subscription), ready, recent, has_ready_leavers)

    def of(self, then: Consumption, name: str, position: Position, got: Mapping[Position, str]) -> bool:
        taken = sum(1 for at, receiver in got.items() if receiver == name and at > self.seen)
        draining = then.keyed_of(self.subscription).draining
        return (
            (bool(self.ready - {name}) and self.permits.get(name, 0) <= taken)
            or name in self.recent
            or self.has_ready_leavers
            or (bool(draining) and invariant.hash_of(then, self.subscription, position) in draining)
        )
