from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from model.cursors.cursor import Ack
from model.cursors.log import Place
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.events import Acknowledged, CursorRead
from model.example.state import Example, Past
from model.example.step import Step
from model.subscription_operations import CutConnection, CutDuring, ReadCursor, ReceiveAll, ResetCursor, Seek
from model.subscriptions import acks
from model.subscriptions.consumers import SHARED
from model.subscriptions.counts import Count
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="pending-acks-outlive-last-consumer",
    rule="SERVE-04",
    statement="The last consumer of a Shared or Key_Shared subscription leaves before the broker has persisted its last individual acks. Their messages are subtracted from the subscription's unacknowledged messages twice. The count stays too low, even below zero, until the topic is unloaded.",
    cause="Since apache/pulsar#25528, Consumer.individualAck lowers the counts only once the cursor has persisted the ack (applyPendingAckCompletions). PersistentDispatcherMultipleConsumers.removeConsumer subtracts all that the consumer still counts, and removes its pending acks (PendingAcksMap.forEachAndClose) only if other consumers are left. After the last one, the completed ack finds its message there, and addAndGetUnAckedMsgs subtracts it again. If a command has several parts of an incomplete batch, pulsar-client's acks each contain all of them, and computeAckedCount compares each with the cursor before that command: k parts are subtracted k times. The classic dispatcher never removes them (read in the sources of 5.0.0-M1). 4.0.8 and 4.2.4 lower the counts before they persist the ack. apache/pulsar#26663 proposes a fix.",
    upstream=("apache/pulsar#25528", "apache/pulsar#26663"),
    side="broker",
    releases=(">=5.0.0-M1,<=5.0.1",),
    seen=("5.0.0-M1", "5.0.1"),
    gone=("4.2.4", "4.0.8"),
    occurrence="In 5 of 5 replays, in 9 steps, while the first ack opens the cursor's ledger; in 0 of 5 each on 4.2.4 and 4.0.8.",
    shadow=Shadow(
        name="test_acks_are_subtracted_twice_only_after_the_last_consumer_left_with_them",
        by="small history",
        statement="The count is lower by more than the messages of these acks, although another consumer is left, although an earlier read showed the acks, or after an unload.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """Acks that the broker completes after the last consumer left lower the count again. It then stays too low by at
    least as much until there is a new dispatcher."""
    if wrong.of != "in all":
        return None
    least = most = 0
    for past in _of_dispatcher(state, wrong):
        most += _subtracted_by(past, wrong.subscription)
        least = _missing(past, wrong.subscription) or least
    return -most, -max(1, least)


def _of_dispatcher(state: Example, wrong: Count) -> list[Past]:
    """The steps since the subscription has its dispatcher, the first one first. Consumers of another type get another
    one, and so does a topic that is reloaded."""
    subscription, steps = wrong.subscription, list[Past]()
    kinds = {one.kind for _, one in wrong.state.consumers_of(subscription)}
    for past in state.trace:
        kinds |= {one.kind for _, one in past.before.consumption.consumers_of(subscription)}
        if len(kinds) > 1 or is_reloaded_by(past, subscription.topic):
            break
        steps.append(past)
    return steps[::-1]


def _missing(past: Past, subscription: SubscriptionId) -> int:
    """By how much the count was too low when it was read."""
    match past.step.operation, past.step.outcome:
        case ReadCursor(topic, name), CursorRead(unacknowledged=count, arrived=arrived):
            here = {one for one, _ in past.before.consumption.consumers_of(subscription)}
            if SubscriptionId(topic, name) == subscription and here == {one.consumer for one in arrived}:
                return max(0, sum(one.unacknowledged for one in arrived) - count)
        case _:
            pass
    return 0


def _subtracted_by(past: Past, subscription: SubscriptionId) -> int:
    """How many messages a broker may subtract twice after a step, at which the last consumer left with its acks."""
    before = past.before.consumption
    if subscription not in before.cursors:
        return 0
    here = dict(before.consumers_of(subscription))
    is_of_all = isinstance(past.step.operation, Seek | ResetCursor | ReceiveAll)
    leaving = [name for name, one in here.items() if one.kind in SHARED and (is_of_all or len(here) == 1)]
    every = ({place for ack in _last_acks(past, subscription, name) for place in ack.places} for name in leaving)
    return sum(_most_subtracted(past, subscription, places) for places in every)


def _last_acks(past: Past, subscription: SubscriptionId, name: str) -> Iterable[Ack]:
    """The acks that the broker may complete after a consumer left: those that its client grouped, or that were sent as
    its connection ended."""
    before, after, doing = past.before.consumption, past.after.consumption, past.step.operation
    if isinstance(doing, CutDuring) and isinstance(past.step.outcome, Acknowledged):
        is_receipt, consumer = past.step.outcome.receipt, doing.doing.consumer
        if consumer == name and not is_receipt:
            places = acks.by_subscription(before, before.consumers[name], past.step.outcome.messages)
            yield Ack(places.get(subscription, ()))
    grouped = before.cursors[subscription].grouped.get(name, ())
    cursor = after.cursors.get(subscription)
    is_over = cursor is None or name not in cursor.grouped
    if is_over or (isinstance(doing, CutConnection) and doing.consumer == name):
        yield from grouped


def _most_subtracted(past: Past, subscription: SubscriptionId, acked: set[Place]) -> int:
    """How many messages a broker subtracts at most when it completes the acks of these places.

    If a command has several parts of a batch, each of its acks contains them all, and the broker subtracts all of them
    for each. If the batch is complete, it subtracts what is left. Parts alone are not persisted, and complete at once.
    """
    before = past.before.consumption
    possible, log = before.cursors[subscription].possible, before.log(subscription.topic)
    new = Counter(at.position for at in acked if not all(one.has_message(at) for one in possible))
    whole = {
        at
        for at in new
        if all(one in acked or all(state.has_message(one) for state in possible) for one in log.places_at(at))
    }
    if not whole and not any(one.beyond() for one in possible):
        return 0
    return sum(number if at in whole else number**2 for at, number in new.items())
