"""Judges expiry by time (ACK-17), each request by a function that is found by the type of the operation.

A message has the publish time that its producer gave it, on the clock of this machine, which is the broker's, too. It
is known within the time of its send. The broker looks at its clock at some time within a request. So some messages are
surely older than a limit then, and some surely younger; between both, a message may have expired or not. An expiry
acknowledges everything up to the last older message that it finds. It finds at least those before the first message
that is not surely older, and none after the last one that may be.

While a TTL is in force, the broker expires messages at any time. These are kept as acks that may have taken effect. So
are those that it evicts under a quota on the backlog (SERVE-10): of a small one, it leaves one entry at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from itertools import takewhile
from typing import Final

from model.cursors import acked
from model.cursors.acked import Acked
from model.cursors.cursor import Ack
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog
from model.events import AnyOutcome
from model.example.state import Example, Judgement
from model.expiry_operations import ExpireOlder, ExpiryRequest, OlderExpired, SetTtl, TtlSet
from model.judgement import Allowed, Broken, in_turn, overdue
from model.log import Position
from model.operations import AnyOperation, Send
from model.policy_operations import PolicySet, SetPolicy
from model.rules.catalogue import carries
from model.service.levels import PolicyId
from model.subscriptions.administration import changed
from model.subscriptions.state import Consumption
from model.vocabulary import Message, SubscriptionId

EVICTION: Final = "SERVE-10"
SLACK_MS: Final = 20.0
"""How exact times are: the broker's clock and this one are read with milliseconds, and one of them is monotonic."""
LATE: Final = 1.5
"""Releases leave a subscription with a consumer and a short backlog alone until its oldest message is so many times as
old as the limit (PersistentTopic.MESSAGE_EXPIRY_THRESHOLD)."""


@dataclass(frozen=True, slots=True)
class NotExpired:
    """Evidence: ``left`` messages of a subscription up to ``last`` did not expire."""

    subscription: SubscriptionId
    last: Position
    left: int


@dataclass(frozen=True, slots=True)
class Ages:
    """The publish times of a topic's messages by business id, as intervals, and when the broker looks at its clock."""

    published: Mapping[str, Interval]
    at: Interval

    def is_older(self, ids: tuple[str, ...], seconds: float) -> bool:
        """Whether an entry with these messages is surely older."""
        time = self.published.get(ids[0])
        return time is not None and time.completed_ms + 1000 * seconds + SLACK_MS < self.at.invoked_ms

    def may_be_older(self, ids: tuple[str, ...], seconds: float) -> bool:
        """Whether it is not surely younger."""
        time = self.published.get(ids[0])
        return time is None or time.invoked_ms + 1000 * seconds - SLACK_MS <= self.at.completed_ms

    @property
    def unsurely(self) -> Ages:
        """The same if nothing has surely expired by then, because the broker looks only once a period."""
        return Ages(self.published, Interval(float("-inf"), self.at.completed_ms))

    def surely_up_to(self, state: Acked, log: TopicLog, seconds: float) -> Position | None:
        """The last of the unacknowledged entries that surely expire."""
        older = takewhile(lambda at: self.is_older(log.entries[at], seconds), state.unacknowledged(log))
        return max(older, default=None)

    def perhaps_up_to(self, states: Iterable[Acked], log: TopicLog, seconds: float) -> Position | None:
        """The last of the unacknowledged entries that may expire."""
        left = {position for one in states for position in one.unacknowledged(log)}
        return max((at for at in left if self.may_be_older(log.entries[at], seconds)), default=None)


def ages_of(state: Example, topic: str, at: Interval) -> Ages:
    """The publish times of the messages that were sent to a topic, at the time of a request."""
    published: dict[str, Interval] = {}
    for past in state.trace:
        operation = past.step.operation
        if not isinstance(operation, Send):
            continue
        session = past.before.sessions.get(operation.session)
        if session is not None and session.topic == topic:
            for message in _messages(operation):
                time = _shifted(past.step.at, 0 if message.delay_ms else operation.age_s)
                other = published.get(message.business_id, time)
                published[message.business_id] = Interval(
                    min(time.invoked_ms, other.invoked_ms), max(time.completed_ms, other.completed_ms)
                )
    return Ages(published, at)


def _messages(operation: Send) -> Iterator[Message]:
    return (message for entry in operation.entries for message in entry.messages)


def _shifted(at: Interval, age_s: int) -> Interval:
    return Interval(at.invoked_ms - 1000 * age_s, at.completed_ms - 1000 * age_s)


# ------------------------------------------------------------------------------------------------------------ requests


@carries("ACK-17")
def judge(state: Example, operation: ExpiryRequest, outcome: AnyOutcome, at: Interval) -> Judgement:
    """What expired. Readers and other non-durable subscriptions keep all messages."""
    return _judged(operation, state, outcome, at)


@singledispatch
def _judged(operation: AnyOperation, state: Example, outcome: AnyOutcome, at: Interval) -> Judgement:
    raise NotImplementedError(type(operation).__name__)


@_judged.register
def _(operation: SetTtl, state: Example, outcome: AnyOutcome, at: Interval) -> Judgement:
    if not isinstance(outcome, TtlSet):
        return Allowed(state)
    state = state.with_ttl(operation.topic, operation.scope, operation.seconds)
    seconds = state.ttl_of(operation.topic)
    if seconds is None:
        return Allowed(state)
    return _expired(state, operation.topic, None, seconds, outcome.not_expired, at, is_over=outcome.is_over)


@_judged.register
def _(operation: ExpireOlder, state: Example, outcome: AnyOutcome, at: Interval) -> Judgement:
    """A request that was refused may have begun in some of the subscriptions."""
    is_over = isinstance(outcome, OlderExpired)
    left = outcome.not_expired if isinstance(outcome, OlderExpired) else {}
    return _expired(state, operation.topic, operation.subscription, operation.seconds, left, at, is_over=is_over)


def _expired(
    state: Example,
    topic: str,
    name: str | None,
    seconds: float,
    not_expired: Mapping[str, int],
    at: Interval,
    *,
    is_over: bool,
) -> Judgement:
    """Messages expired in one subscription, or in all."""
    if topic not in state.consumption.topics or not state.consumption.topics[topic].is_sure:
        return Allowed(state, excused=("ACK-17",))
    ages = ages_of(state, topic, at)
    concerned = [one for one in state.consumption.cursors if one.topic == topic and name in (None, one.name)]

    def one_of_them(subscription: SubscriptionId, before: Consumption) -> Allowed[Consumption] | Broken:
        left = not_expired.get(subscription.name, 0) if is_over else 1
        return _expired_in(before, subscription, seconds, ages, left, is_over=is_over)

    judged = in_turn(state.consumption, [partial(one_of_them, one) for one in concerned])
    return judged.then(lambda after: Allowed(replace(state, consumption=after)))


def _expired_in(
    state: Consumption, subscription: SubscriptionId, seconds: float, ages: Ages, left: int, *, is_over: bool
) -> Allowed[Consumption] | Broken:
    """Messages of a subscription expired; ``left``: how many did not, although they are older."""
    cursor, log = state.cursors[subscription], state.log(subscription.topic)
    if not cursor.durable:
        return Allowed(state.with_cursor(subscription, replace(cursor, since=cursor.since | {"ACK-17"})))
    may_expire = _may_have_expired(state, subscription, seconds, ages.unsurely if left else ages)
    due = [_surely_up_to(state, subscription, one, seconds, ages) for one in cursor.possible]
    if left:
        if not is_over or None in due:
            return Allowed(may_expire, excused=("ACK-17",))
        last = min(one for one in due if one is not None)
        because = f"{left} messages of {subscription.name} that are older than {seconds:g} s did not expire"
        evidence = NotExpired(subscription, last, left)
        return overdue(Broken("ACK-17", because, evidence=evidence).passing_to(may_expire))
    if all(one is None for one in due):
        return Allowed(may_expire)

    def expire(one: Acked) -> Acked:
        last = _surely_up_to(state, subscription, one, seconds, ages)
        return one if last is None else acked.acknowledge_up_to(one, log, Place(last))

    after = changed(may_expire, subscription, expire, ages.at, rule="ACK-17")
    return Allowed(after, ("ACK-17",))


def _surely_up_to(
    state: Consumption, subscription: SubscriptionId, one: Acked, seconds: float, ages: Ages
) -> Position | None:
    """The last entry that surely expires in a state of a subscription."""
    log = state.log(subscription.topic)
    first = next(one.unacknowledged(log), None)
    is_used = any(state.consumers_of(subscription))
    if first is None or (is_used and not ages.is_older(log.entries[first], LATE * seconds)):
        return None
    return ages.surely_up_to(one, log, seconds)


def _may_have_expired(
    state: Consumption, subscription: SubscriptionId, seconds: float, ages: Ages, *, rule: str = "ACK-17"
) -> Consumption:
    """The same if everything up to the last message that may be older may have expired."""
    cursor, log = state.cursors[subscription], state.log(subscription.topic)
    cursor = replace(cursor, since=cursor.since | {rule})
    surely = [_surely_up_to(state, subscription, one, seconds, ages) for one in cursor.possible]
    last = ages.perhaps_up_to(cursor.possible, log, seconds)
    may_be = last is not None and any(one is None or one < last for one in surely)
    ack = Ack((Place(last),), cumulative=True) if may_be and last is not None else None
    if ack is not None and ack not in cursor.stray:
        cursor = replace(cursor, stray=(*cursor.stray, ack))
    return state.with_cursor(subscription, cursor)


def passed_time(state: Example, at: Interval) -> Example:
    """The same after an operation: a TTL that is in force may have expired more messages."""
    for topic in state.ttls:
        seconds, tracked = state.ttl_of(topic), state.consumption.topics.get(topic)
        if seconds is None or tracked is None or not tracked.is_sure:
            continue
        ages = ages_of(state, topic, at)
        consumption = state.consumption
        for subscription, cursor in list(consumption.cursors.items()):
            if subscription.topic == topic and cursor.durable:
                consumption = _may_have_expired(consumption, subscription, seconds, ages.unsurely)
        state = replace(state, consumption=consumption)
    for (topic, _), policy in state.service.policies.items():
        if policy.evicting:
            state = replace(state, consumption=_may_be_evicted(state.consumption, topic, at))
    return state


# -------------------------------------------------------------------------------------------------------------- quotas


def _may_be_evicted(state: Consumption, topic: str, at: Interval) -> Consumption:
    """The same if a quota may have evicted everything: no message has an age then."""
    if topic not in state.topics or not state.topics[topic].is_sure:
        return state
    for subscription, cursor in list(state.cursors.items()):
        if subscription.topic == topic and cursor.durable:
            state = _may_have_expired(state, subscription, 0, Ages({}, at), rule=EVICTION)
    return state


@carries("SERVE-10")
def evicted(state: Example, operation: SetPolicy, outcome: AnyOutcome, at: Interval) -> Judgement:
    """A quota on the backlog was set. The broker evicts all entries of each subscription but the last one."""
    topic, policy = operation.topic, state.service.policies.get(PolicyId(operation.topic, operation.kind))
    if not isinstance(outcome, PolicySet) or policy is None or not policy.evicting:
        return Allowed(state)
    consumption = _may_be_evicted(state.consumption, topic, at)
    if (
        outcome.not_evicted is None
        or policy.evicting != policy.in_force
        or not (topic in consumption.topics and consumption.topics[topic].is_sure)
    ):
        return Allowed(replace(state, consumption=consumption))
    for name, left in outcome.not_evicted.items():
        because = f"{left} messages of {name} are not evicted, although the quota of {topic} is {policy}"
        broken = Broken(EVICTION, because, evidence=outcome)
        return overdue(broken.passing_to(replace(state, consumption=consumption)))
    log = consumption.log(topic)

    def evict(one: Acked) -> Acked:
        left = list(one.unacknowledged(log))
        return one if len(left) <= 1 else acked.acknowledge_up_to(one, log, Place(left[-2]))

    for subscription in [one for one, cursor in consumption.cursors.items() if one.topic == topic and cursor.durable]:
        consumption = changed(consumption, subscription, evict, at, rule=EVICTION)
    return Allowed(replace(state, consumption=consumption), (EVICTION,))
