"""SERVE-10: limits that policies set at the levels of topic and namespace, and what they refuse."""

from __future__ import annotations

import pytest

from model.events import AnyOutcome, Created, DeduplicationSet, Done, LogRead, Opened, Refused, Sent, Stored, Subscribed
from model.example.judge import judge
from model.example.state import Example
from model.expiry_operations import SetTtl, TtlSet
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    CloseProducer,
    CreateTopic,
    OpenProducer,
    ReadLog,
    Send,
    SetDeduplication,
    Unload,
)
from model.policy_operations import (
    EVICTS,
    PolicyKind,
    PolicyLevel,
    PolicyRead,
    PolicySet,
    PolicyValue,
    Quota,
    ReadPolicy,
    SetPolicy,
)
from model.producer_operations import Queued
from model.reader_operations import OpenReader, ReaderOpened
from model.service.unexpected import Closed
from model.subscription_operations import CloseConsumer, CreateSubscription, SkipAll, Subscribe
from model.vocabulary import ChunkNumber, Entry, Limits, Message
from tests.verdicts import Happened, judged

TOPIC: Happened = (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6))
P: Happened = (OpenProducer("p", "t0", "p"), Opened(-1))
Q: Happened = (OpenProducer("q", "t0", "q"), Opened(-1))
S: Happened = (CreateSubscription("t0", "s"), Done())
C: Happened = (Subscribe("c", "t0", "s"), Subscribed())
READER: Happened = (OpenReader("r", "t0"), ReaderOpened(Position(-1, -1)))
RELOADED: Happened = (Unload("t0"), Done())
BUSY = Refused("ProducerBusy", "Topic reached max producers limit")
FULL = Refused("ConsumerBusy", "Topic reached max consumers limit")
NOT_ALLOWED = Refused("NotAllowedError", "no")
LET_IN = Subscribed()


def sets(
    kind: PolicyKind, value: PolicyValue | None, level: PolicyLevel = "topic", *, is_in_force: bool | None = True
) -> Happened:
    return SetPolicy("t0", kind, value, level), PolicySet(is_in_force=is_in_force)


def evicts() -> Happened:
    return SetPolicy("t0", "backlog size", EVICTING), PolicySet(is_in_force=True, not_evicted={})


def verdict(*steps: Happened) -> Allowed[Example] | Broken:
    return judged(TOPIC, *steps)


def sends(size_bytes: int, *, chunk: ChunkNumber | None = None) -> Send:
    return Send("p", (Entry((Message(1, "b1", size_bytes=size_bytes, chunk=chunk),)),))


HELD = Refused("ProducerBlockedQuotaExceededError", "Cannot create producer on topic with backlog quota exceeded")
HOLDS = Quota(1, "producer_request_hold")
EVICTING = Quota(1, EVICTS)
LARGE = Quota(2**40 - 1, "producer_exception")
M: Happened = (sends(10), Sent((Stored(Position(1, 0)),)))
N: Happened = (Send("p", (Entry((Message(2, "b2"),)),)), Sent((Stored(Position(1, 1)),)))
SKIPPED: Happened = (SkipAll("t0", "s"), Done())
OPENS = OpenProducer("q", "t0", "q")
OPENED = Opened(-1)
SUBSCRIBES = Subscribe("d", "t0", "s")
OTHER = Subscribe("d", "t0", "s2")
CREATES = CreateSubscription("t0", "s2")
STORED = Sent((Stored(Position(1, 0)),))
TOO_LARGE = Sent((NOT_ALLOWED,))


@pytest.mark.parametrize(
    ("before", "operation", "right", "wrong"),
    [
        ((P, sets("producers", 1)), OPENS, BUSY, OPENED),
        ((P, sets("producers", 2)), OPENS, OPENED, BUSY),
        ((P, sets("producers", 1), (CloseProducer("p"), Done())), OPENS, OPENED, BUSY),
        ((P, sets("producers", 1), sets("producers", None)), OPENS, OPENED, BUSY),
        ((P, sets("producers", 1, "namespace")), OPENS, BUSY, OPENED),
        ((P, sets("producers", 1, "namespace"), sets("producers", 2)), OPENS, OPENED, BUSY),
        ((P, sets("producers", 1, "namespace"), sets("producers", 0)), OPENS, OPENED, BUSY),
        ((P, sets("producers", 2, "namespace"), sets("producers", 1)), OPENS, BUSY, OPENED),
        ((sets("producers", 1), RELOADED, P), OPENS, BUSY, OPENED),
        ((sets("producers", 1, is_in_force=None), RELOADED, P), OPENS, BUSY, OPENED),
        ((S, C, sets("consumers", 1)), OTHER, FULL, LET_IN),
        ((S, C, sets("consumers of a subscription", 1)), SUBSCRIBES, FULL, LET_IN),
        ((S, C, sets("consumers of a subscription", 1)), OTHER, LET_IN, FULL),
        ((S, C, sets("consumers", 1), (CloseConsumer("c"), Done())), OTHER, LET_IN, FULL),
        ((S, sets("subscriptions", 1)), CREATES, Refused("409"), Done()),
        ((S, sets("subscriptions", 2)), CREATES, Done(), Refused("409")),
        ((S, sets("subscriptions", 1)), OTHER, NOT_ALLOWED, LET_IN),
        ((S, sets("subscription types", ("Failover",))), SUBSCRIBES, NOT_ALLOWED, LET_IN),
        ((S, sets("subscription types", ("Failover", "Shared"))), SUBSCRIBES, LET_IN, NOT_ALLOWED),
        ((P, S, M, sets("backlog size", HOLDS)), OPENS, HELD, OPENED),
        ((P, S, M, sets("backlog size", HOLDS, "namespace")), OPENS, HELD, OPENED),
        ((P, S, M, sets("backlog size", HOLDS, "namespace"), sets("backlog size", LARGE)), OPENS, OPENED, HELD),
        ((P, S, M, sets("backlog size", HOLDS), sets("backlog size", None)), OPENS, OPENED, HELD),
        ((P, S, M, sets("backlog size", HOLDS), SKIPPED), OPENS, OPENED, HELD),
        ((P, S, M, sets("backlog size", HOLDS), RELOADED), OPENS, HELD, OPENED),
        ((P, M, sets("backlog size", HOLDS)), OPENS, OPENED, HELD),
        ((P, S, M, evicts()), OPENS, OPENED, HELD),
        (
            (P, S, M, N),
            SetPolicy("t0", "backlog size", EVICTING),
            PolicySet(is_in_force=True, not_evicted={}),
            PolicySet(is_in_force=True, not_evicted={"s": 2}),
        ),
        (
            (P, M),
            SetPolicy("t0", "backlog size", HOLDS),
            PolicySet(is_in_force=True),
            PolicySet(is_in_force=True, is_held_by_system=True),
        ),
        (
            ((SetTtl("t0", 60), TtlSet()), (SetTtl("t0", 90, "namespace"), TtlSet())),
            ReadPolicy("t0", "TTL"),
            PolicyRead(60, 90, 60),
            PolicyRead(60, 90, 90),
        ),
        (
            ((SetDeduplication("t0", "topic", on=True), DeduplicationSet(deduplication=True)),),
            ReadPolicy("t0", "deduplication"),
            PolicyRead(1, applied=1, has_namespace=False),
            PolicyRead(1, applied=0, has_namespace=False),
        ),
        ((P, sets("message size", 1000)), sends(1000), TOO_LARGE, STORED),
        ((P, sets("message size", 1000)), sends(500), STORED, TOO_LARGE),
        ((sets("producers", 1),), ReadPolicy("t0", "producers"), PolicyRead(1, None, 1), PolicyRead(2, None, 1)),
        ((sets("producers", 1),), ReadPolicy("t0", "producers"), PolicyRead(1, None, 1), PolicyRead(1, None, 2)),
        ((sets("producers", 1),), ReadPolicy("t0", "producers"), PolicyRead(1, None, 1), PolicyRead(1, 2, 1)),
        ((), SetPolicy("t0", "producers", 1), PolicySet(is_in_force=True), PolicySet(is_in_force=False)),
        ((), SetPolicy("t0", "producers", 1), PolicySet(), PolicySet(is_shown=False)),
    ],
)
def test_a_policy_that_is_in_force_refuses_and_admits(
    before: tuple[Happened, ...], operation: AnyOperation, right: AnyOutcome, wrong: AnyOutcome
) -> None:
    held, broken = verdict(*before, (operation, right)), verdict(*before, (operation, wrong))
    assert isinstance(held, Allowed), held
    assert "SERVE-10" in held.exercised
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-10", broken.because


@pytest.mark.parametrize(
    ("before", "operation", "outcomes"),
    [
        ((P, sets("producers", 1, is_in_force=None)), OPENS, (BUSY, OPENED)),
        ((P, sets("producers", 1), sets("producers", 2, is_in_force=None)), OPENS, (BUSY, OPENED)),
        ((S, C, READER, sets("consumers", 2)), OTHER, (FULL, LET_IN)),
        ((P, sets("message size", 1000)), sends(900), (TOO_LARGE, STORED)),
        ((P, sets("message size", 1000)), sends(2000, chunk=ChunkNumber(0, 2)), (TOO_LARGE, STORED)),
        ((S, C, sets("consumers", 1)), ReadLog("t0"), (FULL, LogRead())),
    ],
)
def test_what_may_not_be_in_force_or_is_not_counted_requires_nothing(
    before: tuple[Happened, ...], operation: AnyOperation, outcomes: tuple[AnyOutcome, ...]
) -> None:
    prepared = verdict(*before)
    assert isinstance(prepared, Allowed), prepared
    for outcome in outcomes:
        held = verdict(*before, (operation, outcome))
        assert isinstance(held, Allowed), held
        assert held.exercised.count("SERVE-10") == prepared.exercised.count("SERVE-10")


def test_a_limit_of_subscriptions_refuses_no_consumer_of_one_that_exists() -> None:
    assert isinstance(verdict(S, sets("subscriptions", 1), (SUBSCRIBES, LET_IN)), Allowed)
    assert isinstance(verdict(S, sets("subscriptions", 1), (SUBSCRIBES, NOT_ALLOWED)), Broken)


def test_a_limit_of_a_namespace_since_the_creation_of_a_topic_is_followed_by_its_own() -> None:
    limited: Happened = (
        CreateTopic("t0", persistence="every-ack", limits=Limits(consumers=1)),
        Created(deduplication=False, snapshot_room=6),
    )
    more = judged(limited, S, C, sets("consumers of a subscription", 2), (SUBSCRIBES, LET_IN))
    assert isinstance(more, Allowed), more
    again = judged(
        limited,
        S,
        C,
        sets("consumers of a subscription", 2),
        sets("consumers of a subscription", None),
        (SUBSCRIBES, FULL),
    )
    assert isinstance(again, Allowed), again


def test_a_limit_is_blamed_for_no_refusal_that_names_an_access_mode() -> None:
    waits = OpenProducer("q", "t0", "q", access="WaitForExclusive")
    by_access = Refused("ProducerBusy", "Topic has an existing exclusive producer: null")
    for refused, rule in ((by_access, "SERVE-09"), (BUSY, "SERVE-10")):
        broken = verdict(P, sets("producers", 2), (waits, Queued()), (CloseProducer("q"), Done()), (OPENS, refused))
        assert isinstance(broken, Broken)
        assert broken.rule == rule, broken.because


def test_a_refusal_of_the_log_without_a_limit_breaks_a_rule() -> None:
    broken = verdict(P, (ReadLog("t0"), FULL))
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-01"


def test_what_a_policy_refuses_is_not_stored() -> None:
    steps = (P, sets("message size", 1000), (sends(2000), TOO_LARGE))
    assert isinstance(verdict(*steps, (ReadLog("t0"), LogRead())), Allowed)


def test_a_quota_that_evicts_leaves_one_message_at_most() -> None:
    after = verdict(P, S, M, N, evicts())
    assert isinstance(after, Allowed), after
    (cursor,) = after.state.consumption.cursors.values()
    log = after.state.consumption.log("t0")
    left = {tuple(one.unacknowledged(log)) for one in cursor.possible}
    assert left == {(Position(1, 1),)}


@pytest.mark.parametrize(
    "changed",
    [
        (sets("backlog size", LARGE), sets("backlog size", EVICTING, is_in_force=None)),
        (evicts(), N, sets("backlog size", None, "namespace", is_in_force=None)),
    ],
    ids=["not in force yet", "nobody waited"],
)
def test_a_quota_may_evict_before_the_suite_waits_for_it(changed: tuple[Happened, ...]) -> None:
    after = verdict(P, S, M, *(changed if N in changed else (N, *changed)))
    assert isinstance(after, Allowed), after
    (cursor,) = after.state.consumption.cursors.values()
    assert {len(list(one.unacknowledged(after.state.consumption.log("t0")))) for one in cursor.possible} == {2}


@pytest.mark.parametrize(("before", "is_broken"), [((P, S, M, sets("backlog size", HOLDS)), False), ((P, S, M), True)])
def test_producers_are_closed_for_a_quota_that_is_in_force(before: tuple[Happened, ...], is_broken: bool) -> None:
    state = verdict(*before)
    assert isinstance(state, Allowed), state
    closed = Closed("p", "the broker closed it", "t0")
    judgement = judge(state.state, ReadPolicy("t0", "producers"), PolicyRead(), unexpected=(closed,))
    assert isinstance(judgement, Broken) is is_broken
