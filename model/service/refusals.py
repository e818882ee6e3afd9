"""SERVE-05, KEY-17 and refusals of SERVE-01: whether a broker refuses what it must, and nothing else.

This module judges the requests for which it knows every reason for a refusal: subscribe, open a producer, create and
delete a subscription. If it is unknown whether a reason exists, the request is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from model.events import AnyOutcome, Done, Opened, Refused, StillConnected, Subscribed
from model.judgement import Allowed, Broken, overdue
from model.operations import AnyOperation, OpenProducer, ReadLog, Unload
from model.producer_operations import AwaitProducers, ProducersRead
from model.rules.catalogue import carries
from model.service import access, confirmed, policies
from model.service.levels import PolicyId
from model.service.state import ServiceState
from model.service.unexpected import INTERNAL_ERRORS
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Subscribe,
    Unsubscribe,
)
from model.subscriptions import claims
from model.subscriptions.consumers import Consumer
from model.subscriptions.state import Consumption
from model.vocabulary import RequestScope, SubscriptionId

Judged = Allowed[None] | Broken

NOT_JUDGED: Final = Allowed(None)
SERVE_05: Final = Allowed(None, ("SERVE-05",))
EXCUSED: Final = Allowed(None, excused=("SERVE-05",))
"""It is unknown whether a reason for a refusal exists."""
NO_REASON: Final = INTERNAL_ERRORS | {"ServiceNotReady", "500", "503"}
"""Errors that name no reason for a refusal, or a reason that must end while the client retries."""
EXISTS: Final = "409"
IS_USED: Final = "412"
IS_BUSY: Final = access.BUSY


@dataclass(frozen=True, slots=True)
class MixedPolicies:
    """A consumer was let in beside these, whose Key_Shared policy is another one."""

    others: tuple[str, ...]


def judge(
    service: ServiceState,
    consumption: Consumption,
    operation: AnyOperation,
    outcome: AnyOutcome,
    *,
    is_certain: bool,
) -> Judged:
    """Whether a refusal, or its absence, has a reason. ``is_certain``: the connected clients are known."""
    limits = policies.limits_on(service, consumption, operation)
    by_policy = policies.checked(limits, operation, outcome, is_certain=is_certain)
    if policies.is_refused_by(limits, outcome):
        return by_policy
    judged = by_policy.then(
        lambda _: _without_policies(service, consumption, operation, outcome, is_certain=is_certain)
    )
    return policies.without_reason(judged, limits, outcome)


def _without_policies(
    service: ServiceState,
    consumption: Consumption,
    operation: AnyOperation,
    outcome: AnyOutcome,
    *,
    is_certain: bool,
) -> Judged:
    match operation:
        case Unsubscribe(name):
            is_tracked = name in consumption.consumers
            return _unsubscribed(consumption, name, outcome, is_certain=is_certain) if is_tracked else NOT_JUDGED
        case _ if isinstance(outcome, Refused) and outcome.code in NO_REASON and is_certain:
            what = f"{type(operation).__name__} of {operation.actor or operation.topic}"
            because = f"{what} is refused with {outcome.code}: {outcome.message}"
            is_interrupted = service.confirmed.get(operation.topic or "", confirmed.EMPTY).is_cut_off
            rule = "SERVE-12" if is_interrupted else "SERVE-01"
            return Broken(rule, because, evidence=outcome).passing_to(None)
        case Unload(topic, scope=scope) if scope != "topic":
            return _unloaded(topic, scope, outcome)
        case OpenProducer():
            by_access = _given_access(service, operation, outcome) if is_certain else NOT_JUDGED
            judged = by_access.then(lambda _: _opened(service, operation, outcome, is_certain=is_certain))
            return judged.then(lambda _: _opened_in_time(service, operation, outcome))
        case AwaitProducers(topic) if isinstance(outcome, ProducersRead) and is_certain:
            return access.read(service.contention(topic), service.holders(topic), outcome)
        case Subscribe(topic=topic, subscription=subscription) if parts := consumption.parts_of(topic):
            if any(consumption.may_be_untracked(SubscriptionId(part, subscription)) for part in parts):
                return EXCUSED
            has_policy = PolicyId(topic, "consumers of a subscription") in service.policies
            at_most = 0 if has_policy else consumption.topics[parts[0]].limits.consumers
            return _subscribed(consumption, operation, outcome, at_most=at_most, is_certain=is_certain)
        case CreateSubscription(topic, subscription) if parts := consumption.parts_of(topic):
            if any(consumption.may_be_untracked(SubscriptionId(part, subscription)) for part in parts):
                return NOT_JUDGED
            exists = [(part, subscription) in consumption.cursors for part in parts]
            return _created(operation, outcome, exists=any(exists), on_all=all(exists))
        case DeleteSubscription(topic, subscription) if parts := consumption.parts_of(topic):
            ids = [SubscriptionId(part, subscription) for part in parts]
            if not all(one in consumption.cursors for one in ids):
                return NOT_JUDGED
            if operation.scope == "bundle" and not service.loading.isdisjoint(parts) and _is_used(outcome):
                return NOT_JUDGED  # nobody may own the bundle
            used_by = {name: consumer for one in ids for name, consumer in consumption.consumers_of(one)}
            return _deleted(operation, outcome, used_by=used_by, is_certain=is_certain)
        case ReadLog(topic) if isinstance(outcome, Refused):
            return _without_reason(f"a reader of {topic}", outcome)
        case _:
            return NOT_JUDGED


@carries("SERVE-05", "KEY-17")
def _subscribed(
    consumption: Consumption, operation: Subscribe, outcome: AnyOutcome, *, at_most: int, is_certain: bool
) -> Judged:
    """An Exclusive subscription has one consumer. All consumers of a subscription have one type, and none exceeds the
    limit.

    Consumers of a Key_Shared subscription have one policy. STICKY consumers claim ranges that do not overlap.
    """
    others = dict(_others(consumption, operation))
    if not all(other.never_disconnected for other in others.values()):
        return EXCUSED  # the connected consumers are not known at the moment
    is_full = bool(at_most) and len(others) >= at_most
    conflicts = [name for name, other in others.items() if is_full or _conflicts(other, operation)]
    mixed = [name for name, other in others.items() if _has_another_policy(other, operation)]
    overlap = claims.overlapping(claims.claims_of(operation.sticky), others, operation.consumer)
    what = f"{operation.consumer} subscribes to {operation.subscription} ({operation.kind})"
    if isinstance(outcome, Refused) and not (conflicts or mixed or overlap):
        # Its policy is that of the connected consumers.
        rule = "KEY-17" if operation.kind == "Key_Shared" else "SERVE-05"
        return Broken(rule, f"{what} and is refused without a reason: {outcome.code}, {outcome.message}")
    is_compared = operation.kind == "Key_Shared" and any(other.kind == "Key_Shared" for other in others.values())
    exercised = (
        *(("SERVE-05",) if others else ()),
        *(("KEY-15",) if overlap else ()),
        *(("KEY-17",) if is_compared else ()),
    )
    if not isinstance(outcome, Subscribed):
        return Allowed(None, exercised) if isinstance(outcome, Refused) else NOT_JUDGED
    if not is_certain and (conflicts or mixed or overlap):
        return Allowed(None, excused=exercised)
    if conflicts:
        with_type = ", ".join(f"{name} ({others[name].kind})" for name in conflicts)
        return Broken("SERVE-05", f"{what} and is let in beside {with_type}")
    if mixed:
        because = f"{what} and is let in beside {', '.join(mixed)}, whose Key_Shared policy is another one"
        return Broken("KEY-17", because, evidence=MixedPolicies(tuple(mixed))).passing_to(None)
    return Allowed(None, exercised) if overlap is None else overlap.then(lambda _: Allowed(None, exercised))


def _others(consumption: Consumption, operation: Subscribe) -> Iterator[tuple[str, Consumer]]:
    for topic in consumption.parts_of(operation.topic):
        yield from consumption.consumers_of(SubscriptionId(topic, operation.subscription))


def _conflicts(other: Consumer, operation: Subscribe) -> bool:
    return other.kind != operation.kind or operation.kind == "Exclusive"


def _has_another_policy(other: Consumer, operation: Subscribe) -> bool:
    """Whether two Key_Shared consumers differ in being STICKY or in allowing out-of-order delivery."""
    policy = (bool(operation.sticky), not operation.out_of_order)
    return operation.kind == other.kind == "Key_Shared" and policy != (bool(other.claims), other.keeps_keys)


def _given_access(service: ServiceState, operation: OpenProducer, outcome: AnyOutcome) -> Judged:
    """What its access mode says, if any producer of the topic ever asked for exclusive access."""
    topic, session = operation.topic, operation.session
    if operation.access == "Shared" and topic not in service.contentions:
        return NOT_JUDGED
    holders = service.holders(topic, but=session)
    names = {service.producers[one.session].name for one in holders}
    if isinstance(outcome, Refused) and operation.producer in names:
        return NOT_JUDGED  # the name is busy
    return access.opened(service.contention(topic, but=session), holders, operation, outcome)


@carries("SERVE-01")
def _opened(service: ServiceState, operation: OpenProducer, outcome: AnyOutcome, *, is_certain: bool) -> Judged:
    """A producer name is busy exactly while another producer of the topic has it."""
    topic, cluster, name = operation.topic, operation.cluster, operation.producer
    opened = service.producers.items()
    has_it = [session for session, one in opened if (one.topic, one.cluster, one.name) == (topic, cluster, name)]
    what = f"producer {name} of {operation.session}"
    others = [session for session in has_it if session != operation.session]
    is_by_access = operation.access != "Shared" or topic in service.contentions
    without_holder = {IS_BUSY} if not (others or is_by_access) else set()  # of all retries
    if isinstance(outcome, Refused) and outcome.code in policies.CODES["backlog size"] | without_holder:
        return overdue(Broken("SERVE-01", f"{what} is refused without a reason: {outcome.code}, {outcome.message}"))
    if isinstance(outcome, Opened) and others:
        is_connected = is_certain and any(service.producers[one].is_wire for one in others)
        return Broken("SERVE-05", f"{what} is let in, although {others[0]} has the name") if is_connected else EXCUSED
    return SERVE_05 if others and isinstance(outcome, Refused | Opened) else NOT_JUDGED


def _opened_in_time(service: ServiceState, operation: OpenProducer, outcome: AnyOutcome) -> Judged:
    """A producer is created unless its topic was terminated."""
    log = service.confirmed.get(operation.topic, confirmed.EMPTY)
    if operation.cluster is not None or not isinstance(outcome, Opened | Refused):
        return NOT_JUDGED
    what = f"producer {operation.producer} of {operation.session}"
    return confirmed.opened(log, operation.topic, what, is_admitted=isinstance(outcome, Opened))


@carries("SERVE-01")
def _created(operation: CreateSubscription, outcome: AnyOutcome, *, exists: bool, on_all: bool) -> Judged:
    """A subscription is created unless it exists. ``on_all``: on all partitions."""
    if isinstance(outcome, Refused) and not (exists and outcome.code == EXISTS):
        return _without_reason(f"creating {operation.subscription}", outcome)
    if isinstance(outcome, Done) and on_all:
        return Broken("SERVE-05", f"{operation.subscription} is created, although it exists")
    return SERVE_05 if on_all else NOT_JUDGED


@carries("SERVE-01")
def _deleted(
    operation: DeleteSubscription, outcome: AnyOutcome, *, used_by: Mapping[str, Consumer], is_certain: bool
) -> Judged:
    """A subscription is deleted unless consumers are connected to it; by force also then."""
    is_refused = bool(used_by) and not operation.by_force
    if isinstance(outcome, Refused) and not (is_refused and outcome.code == IS_USED):
        return _without_reason(f"deleting {operation.subscription}", outcome)
    if isinstance(outcome, Done) and is_refused:
        connected = _certainly_connected(used_by)
        if not is_certain or connected is None:
            return EXCUSED
        return Broken("SERVE-05", f"{operation.subscription} is deleted, although {connected} is connected to it")
    return SERVE_05 if is_refused and isinstance(outcome, Refused) else NOT_JUDGED


@carries("SERVE-11")
def _unloaded(topic: str, scope: RequestScope, outcome: AnyOutcome) -> Judged:
    """An unload of a namespace or a bundle closes all producers and consumers of its topics."""
    if isinstance(outcome, StillConnected):
        because = f"{' and '.join(outcome.actors)} stay connected to topic {topic}, whose {scope} was unloaded"
        return Broken("SERVE-11", because, evidence=outcome).passing_to(None)
    return Allowed(None, ("SERVE-11",)) if isinstance(outcome, Done) else NOT_JUDGED


@carries("SERVE-01")
def _unsubscribed(consumption: Consumption, name: str, outcome: AnyOutcome, *, is_certain: bool) -> Judged:
    """A consumer can unsubscribe unless others are connected to its subscription."""
    parts = consumption.consumers[name].subscriptions
    others = {other: one for part in parts for other, one in consumption.consumers_of(part) if other != name}
    if isinstance(outcome, Refused) and not others and is_certain:
        return _without_reason(f"unsubscribing {name}", outcome)
    if isinstance(outcome, Done) and others:
        connected = _certainly_connected(others)
        if not is_certain or connected is None:
            return EXCUSED
        return Broken("SERVE-05", f"{name} unsubscribes, although {connected} is connected to the subscription")
    return SERVE_05 if others and isinstance(outcome, Refused) else NOT_JUDGED


def _certainly_connected(consumers: Mapping[str, Consumer]) -> str | None:
    """One that is connected; consumers of pulsar-client may not have reconnected since they were disconnected."""
    return next((name for name, one in consumers.items() if one.never_disconnected), None)


def _is_used(outcome: AnyOutcome) -> bool:
    return isinstance(outcome, Refused) and outcome.code == IS_USED


def _without_reason(what: str, refused: Refused) -> Broken:
    because = f"{what} is refused without a reason: {refused.code}, {refused.message}"
    return Broken("SERVE-01", because, evidence=refused).passing_to(None)
