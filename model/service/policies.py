"""SERVE-10: limits that policies set at the levels of topic, namespace and broker, and what they refuse.

The policy of a topic is in force where there is one, otherwise that of its namespace, otherwise the broker's setting.
Brokers apply a changed policy a little later than they confirm it. The performer waits until stats show that. Where
they do not show it, the former value may stay in force until the topic is loaded again.

A broker refuses a client that would be one too many. It leaves those alone that are connected when a limit is lowered.
What is limited is counted from below and from above, because some clients may be connected or not: pulsar-client may
be reconnecting, and the model does not follow all subscriptions. A refusal is required if the lower count has reached
the limit, and allowed if the upper one has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from model.events import Answer, AnyOutcome, Done, Duplicate, LogRead, Opened, Refused, Stored, Subscribed
from model.judgement import Allowed, Broken, overdue
from model.operations import AnyOperation, OpenProducer, ReadLog
from model.policy_operations import (
    PolicyKind,
    PolicyRead,
    PolicySet,
    PolicyValue,
    ReadPolicy,
    SetPolicy,
)
from model.rules.catalogue import carries
from model.service.levels import LITTLE_BYTES, MANY_BYTES, NO_LIMIT, Policy, PolicyId, in_words
from model.service.state import ServiceState
from model.subscription_operations import CreateSubscription, ReceiveAll, Subscribe
from model.subscriptions.consumers import Consumer
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import Entry, SubscriptionId, SubscriptionType

RULE: Final = "SERVE-10"
MANY: Final = 10**9
"""More clients than any topic has."""
METADATA_BYTES: Final = 200
"""More than the metadata of a message of the suite takes, which counts as a part of it."""
CODES: Final[Mapping[PolicyKind, frozenset[str]]] = {
    "producers": frozenset({"ProducerBusy"}),
    "consumers": frozenset({"ConsumerBusy"}),
    "consumers of a subscription": frozenset({"ConsumerBusy"}),
    "subscriptions": frozenset({"NotAllowedError", "409", "412"}),
    "message size": frozenset({"NotAllowedError"}),
    "subscription types": frozenset({"NotAllowedError"}),
    "backlog size": frozenset({"ProducerBlockedQuotaExceededError", "ProducerBlockedQuotaExceededException"}),
}
"""The errors with which brokers refuse what a policy does not allow; of the admin API as its status."""
PRODUCERS_LIMIT: Final = "max producers limit"
"""What a refusal says if the limit on producers is its reason. A producer's name or access mode has the same code."""


@dataclass(frozen=True, slots=True)
class Count:
    """So many at least and at most."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Limited:
    """A policy that may refuse a request. ``must``: it does, whichever value is in force. ``may``: under one of them.

    ``what``: what is limited, in words.
    """

    id: PolicyId
    policy: Policy
    what: str
    must: bool
    may: bool


# ------------------------------------------------------------------------------------------------ setting and reading


def policy_of(service: ServiceState, consumption: Consumption, policy: PolicyId) -> Policy:
    """A policy at all levels; namespaces may have one that limits consumers since their topic was created."""
    found = service.policies.get(policy)
    if found is not None:
        return found
    tracked = consumption.topics.get(policy.topic)
    at_most = tracked.limits.consumers if tracked is not None and policy.kind == "consumers of a subscription" else 0
    return Policy(namespace=at_most or None)


@carries(RULE)
def judge(
    service: ServiceState,
    consumption: Consumption,
    operation: SetPolicy | ReadPolicy,
    outcome: AnyOutcome,
    own: Policy | None,
) -> Allowed[ServiceState] | Broken:
    """A policy that is set is shown and in force within a bound. What is read is what was set, at each level.

    ``own``: the policy, if operations of its own set it.
    """
    one = PolicyId(operation.topic, operation.kind)
    before = policy_of(service, consumption, one)
    match operation, outcome:
        case SetPolicy(), PolicySet():
            after = replace(service, policies=service.policies.set(one, before.changed(operation, outcome)))
            what = f"the policy on {operation.kind} of the {operation.level} of {operation.topic}"
            if not outcome.is_shown:
                because = f"{what} is set to {operation.value}, and the broker does not show it"
                return overdue(Broken(RULE, because, evidence=outcome).passing_to(after))
            if outcome.is_in_force is False:
                because = f"{what} is set to {operation.value}, and it does not come into force"
                return overdue(Broken(RULE, because, evidence=outcome).passing_to(after))
            if outcome.is_held_by_system and not _has_backlog(consumption, operation.topic):
                because = f"{what} is exceeded by the cursor of deduplication alone"
                return overdue(Broken(RULE, because, evidence=outcome).passing_to(after))
            return Allowed(after, (RULE,))
        case ReadPolicy(), PolicyRead():
            return _read(own or before, operation, outcome).then(lambda _: Allowed(service))
        case _:
            return Allowed(service)


def _read(policy: Policy, operation: ReadPolicy, read: PolicyRead) -> Allowed[None] | Broken:
    if policy == Policy():
        return Allowed(None)  # the broker's own setting is not known
    levels = [("topic", policy.topic, read.topic)]
    if read.has_namespace:
        # Namespaces with limits of other kinds may show this one as 0.
        levels.append(("namespace", policy.namespace or None, read.namespace or None))
    for level, expected, shown in levels:
        if shown != expected:
            what = f"the policy on {operation.kind} of the {level} of {operation.topic}"
            because = f"{what} is {_or_none(expected)}, and the broker shows {_or_none(shown)}"
            return Broken(RULE, because, evidence=read).passing_to(None)
    if policy.former:
        return Allowed(None, excused=(RULE,))
    if not read.shows_applied:
        return Allowed(None, (RULE,))
    applied = NO_LIMIT if read.applied is None else read.applied
    if applied != policy.latest:
        what = f"the policy on {operation.kind} that applies to {operation.topic}"
        because = f"{what} is {policy}, and the broker shows {in_words(applied)}"
        return Broken(RULE, because, evidence=read).passing_to(None)
    return Allowed(None, (RULE,))


def _or_none(value: PolicyValue | None) -> str:
    return "none" if value is None else in_words(value)


def reloaded(service: ServiceState, topics: Iterable[str]) -> ServiceState:
    """Topics were loaded again, with the policies that are set."""
    names = frozenset(topics)
    late = {one: policy for one, policy in service.policies.items() if one.topic in names and policy.former}
    settled = {one: replace(policy, former=frozenset()) for one, policy in late.items()}
    return replace(service, policies=service.policies.updated(settled)) if settled else service


# ----------------------------------------------------------------------------------------------------------- refusals


def limits_on(service: ServiceState, consumption: Consumption, operation: AnyOperation) -> tuple[Limited, ...]:
    """The policies of its topic that may refuse a request, each with whether it does."""
    match operation:
        case OpenProducer(session, topic, cluster=None):
            limits = _limited(service, consumption, topic, "producers", _producers(service, topic, session))
            fences = operation.access == "ExclusiveWithFencing"
            by_number = [replace(limit, must=limit.must and not fences) for limit in limits]
            return (*by_number, *_on_backlog(service, consumption, topic))
        case Subscribe(topic=topic, subscription=name, kind=kind):
            one = SubscriptionId(topic, name)
            return (*_on_consumer(service, consumption, one, kind), *_on_subscription(service, consumption, one))
        case ReceiveAll(topic, name, kind, cluster=None):
            return tuple(_on_consumer(service, consumption, SubscriptionId(topic, name), kind, is_alone=True))
        case CreateSubscription(topic, name):
            return tuple(_on_subscription(service, consumption, SubscriptionId(topic, name)))
        case ReadLog(topic, cluster=None):
            one = SubscriptionId(topic, "")
            may_refuse = (
                *_on_consumer(service, consumption, one, "Exclusive"),
                *_on_subscription(service, consumption, one),
            )
            return tuple(replace(limit, must=False) for limit in may_refuse)  # an empty log is not read
        case _:
            return ()


def _limited(
    service: ServiceState, consumption: Consumption, topic: str, kind: PolicyKind, count: Count
) -> Iterator[Limited]:
    one = PolicyId(topic, kind)
    if one in service.policies:
        policy = policy_of(service, consumption, one)
        limits = [limit for limit in policy.in_force if isinstance(limit, int)]
        must = all(0 < limit <= count.least for limit in limits)
        may = any(0 < limit <= count.most for limit in limits)
        number = str(count.least) if count.least == count.most else f"{count.least} or more"
        yield Limited(one, policy, f"the number of {kind} of {topic} is {number}", must, may)


def _durable(consumption: Consumption, topic: str) -> list[SubscriptionId]:
    return [one for one, cursor in consumption.cursors.items() if one.topic == topic and cursor.durable]


def _has_backlog(consumption: Consumption, topic: str) -> bool:
    """Whether a subscription may have unacknowledged messages."""
    return any(consumption.all_left(one) for one in _durable(consumption, topic))


def _on_backlog(service: ServiceState, consumption: Consumption, topic: str) -> Iterator[Limited]:
    """A quota refuses producers while a subscription has a backlog that exceeds it.

    The cursor of deduplication may exceed it, too, until the broker has looked.
    """
    quota = PolicyId(topic, "backlog size")
    if quota not in service.policies:
        return
    policy = policy_of(service, consumption, quota)
    has_any = any(next(surely_left(consumption, one), None) is not None for one in _durable(consumption, topic))
    is_open = _has_unknown(service, consumption, topic) or topic in service.deduplicated
    may_have = is_open or _has_backlog(consumption, topic)
    exceeded = {one for one in policy.refusing if one.limit <= LITTLE_BYTES}
    must = has_any and exceeded == policy.in_force
    may = may_have and any(one.limit < MANY_BYTES for one in policy.refusing)
    yield Limited(quota, policy, f"{topic} has {'a' if has_any else 'no'} backlog", must, may)


def over_quota(service: ServiceState, consumption: Consumption, operation: AnyOperation) -> frozenset[str]:
    """The topics of which the broker may close producers, for a quota that was set or is being set."""
    quotas = {one.topic for one, policy in service.policies.items() if policy.refusing}
    if isinstance(operation, SetPolicy) and operation.kind == "backlog size":
        quotas.add(operation.topic)
    return frozenset(one for one in quotas if one not in consumption.topics or consumption.log(one).entries)


def _on_consumer(
    service: ServiceState,
    consumption: Consumption,
    one: SubscriptionId,
    kind: SubscriptionType,
    *,
    is_alone: bool = False,
) -> Iterator[Limited]:
    """``is_alone``: the other consumers of the subscription are disconnected first."""
    there = [consumer for consumer in consumption.consumers.values() if one.topic in consumer.topics]
    on_it = [consumer for consumer in there if consumer.is_on(one)]
    others = [consumer for consumer in there if consumer not in on_it] if is_alone else there
    is_open = _has_unknown(service, consumption, one.topic)
    yield from _limited(service, consumption, one.topic, "consumers", _connected(others, is_open_ended=is_open))
    if not is_alone and kind != "Exclusive":  # of an Exclusive subscription, one consumer is the limit
        of_one = _connected(on_it, is_open_ended=is_open)
        yield from _limited(service, consumption, one.topic, "consumers of a subscription", of_one)
    types = PolicyId(one.topic, "subscription types")
    if types in service.policies:
        policy = service.policies[types]
        refuses = [isinstance(value, tuple) and kind not in value for value in policy.in_force]
        yield Limited(types, policy, f"the subscription is {kind}", all(refuses), any(refuses))


def _on_subscription(service: ServiceState, consumption: Consumption, one: SubscriptionId) -> Iterator[Limited]:
    """A new subscription; any number of consumers may use one that exists."""
    if one in consumption.cursors:
        return
    number = sum(cursor.topic == one.topic for cursor in consumption.cursors)
    is_open = _has_unknown(service, consumption, one.topic)
    count = Count(0 if is_open else number, MANY if is_open else number)
    yield from _limited(service, consumption, one.topic, "subscriptions", count)


def _producers(service: ServiceState, topic: str, session: str) -> Count:
    holders = service.holders(topic, but=session)
    return Count(sum(one.is_certain for one in holders), MANY if topic in service.uncounted else len(holders))


def _connected(consumers: Iterable[Consumer], *, is_open_ended: bool) -> Count:
    every = list(consumers)
    surely = sum(one.never_disconnected and one.client == "wire" for one in every)
    return Count(surely, MANY if is_open_ended else len(every))


def _has_unknown(service: ServiceState, consumption: Consumption, topic: str) -> bool:
    """Whether a topic may have subscriptions and consumers that the model does not follow."""
    tracked = consumption.topics.get(topic)
    return tracked is None or tracked.has_untracked or topic in service.uncounted


def is_refused_by(limits: Iterable[Limited], outcome: AnyOutcome) -> bool:
    """Whether a policy may be the reason of a refusal: then no other reason has to be there."""
    return isinstance(outcome, Refused) and any(one.may and outcome.code in CODES[one.id.kind] for one in limits)


@carries(RULE)
def checked(
    limits: tuple[Limited, ...], operation: AnyOperation, outcome: AnyOutcome, *, is_certain: bool
) -> Allowed[None] | Broken:
    """A request that a policy may refuse. ``is_certain``: the connected clients are known."""
    must = [one for one in limits if one.must]
    match outcome:
        case Refused():
            if not is_refused_by(limits, outcome):
                return Allowed(None)
            return Allowed(None, (RULE,)) if must and is_certain else Allowed(None, excused=(RULE,))
        case Opened() | Subscribed() | Done() | LogRead():
            if must and is_certain:
                what = f"{type(operation).__name__} of {operation.actor or operation.subscription}"
                because = f"{what} is admitted, although {must[0].what}, and the policy is {must[0].policy}"
                return Broken(RULE, because, evidence=must[0]).passing_to(None)
            exercised = tuple(RULE for one in limits if not one.may)
            return Allowed(None, exercised, excused=tuple(RULE for one in limits if one.may))
        case _:
            return Allowed(None)


def without_reason(
    judged: Allowed[None] | Broken, limits: tuple[Limited, ...], outcome: AnyOutcome
) -> Allowed[None] | Broken:
    """A refusal that nothing explains breaks this rule if it is one of a policy that allows the request."""
    if not isinstance(judged, Broken) or not isinstance(outcome, Refused):
        return judged
    allowing = [one for one in limits if _is_named(one.id.kind, outcome)]
    if not allowing:
        return judged
    says = " and ".join(f"{one.what}, and the policy is {one.policy}" for one in allowing)
    return judged.changed(lambda one: replace(one, rule=RULE, because=f"{one.because}, although {says}"))


def _is_named(kind: PolicyKind, refused: Refused) -> bool:
    return refused.code in CODES.get(kind, ()) and (kind != "producers" or PRODUCERS_LIMIT in refused.message)


# ------------------------------------------------------------------------------------------------------- message size


def _is_too_large(entry: Entry, policy: Policy) -> bool | None:
    """Whether an entry exceeds the limit; None: it may, or another limit may be in force."""
    payload = sum(max(message.size_bytes, len(message.business_id)) for message in entry.messages)
    least, most = payload + 1, payload + METADATA_BYTES * (1 + len(entry.messages))
    limits = [limit for limit in policy.in_force if isinstance(limit, int)]
    if all(0 < limit < least for limit in limits):
        return True
    return None if any(0 < limit < most for limit in limits) else False


@carries(RULE)
def sent(
    service: ServiceState, topic: str, entries: tuple[Entry, ...], answers: tuple[Answer, ...]
) -> Allowed[tuple[int, ...]] | Broken:
    """Answers to entries; the state is which of them, by number, were not refused because of their size.

    Chunks of a message may be as large as the broker's own limit.
    """
    policy = service.policies.get(PolicyId(topic, "message size"))
    if policy is None:
        return Allowed(tuple(range(len(entries))))
    left: list[int] = []
    exercised: list[str] = []
    for number, (entry, answer) in enumerate(zip(entries, answers, strict=True)):
        is_refused = isinstance(answer, Refused) and answer.code in CODES["message size"]
        is_too_large = None if entry.chunk is not None else _is_too_large(entry, policy)
        if is_too_large is False and is_refused:
            return Broken(RULE, f"{entry} is refused, although the policy on its size is {policy}", evidence=answer)
        if is_too_large and isinstance(answer, Stored | Duplicate):
            return Broken(RULE, f"{entry} is stored, although the policy on its size is {policy}", evidence=answer)
        if not is_refused:
            left.append(number)
        if is_refused or isinstance(answer, Stored):
            exercised += [RULE] if is_too_large is not None else []
    return Allowed(tuple(left), tuple(exercised))
