"""Policies of one kind at a time, at both levels, and clients under them, which reach the limits that there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, get_args

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec import structs

from model.expiry_operations import SetTtl
from model.operations import (
    AnyOperation,
    CloseProducer,
    CrashProducer,
    Kill,
    OpenProducer,
    Send,
    SetDeduplication,
    Unload,
)
from model.policy_operations import EVICTS, PolicyKind, PolicyLevel, PolicyValue, Quota, ReadPolicy, SetPolicy
from model.subscription_operations import (
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    DeleteSubscription,
    Receive,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, SubscriptionType
from stateful.crashes import CRASHES, IN_PLACE, Crash, takeovers
from stateful.cursors.base import KINDS, TOPIC, OnSubscriptions

Step = AnyOperation | int | None
"""An operation, the size of a message that is sent, or None: the machine's own producer is opened again."""

PRODUCERS: Final = ("q1", "q2", "q3")
"""The producers beside the machine's own one, each in a session of its name."""
CONSUMERS: Final = ("k1", "k2", "k3", "k4")
"""Further consumers."""
SUBSCRIPTIONS: Final = ("l0", "l1", "l2")
"""Further subscriptions."""
COUNTS: Final = st.sampled_from([1, 1, 2, 2, 3, 4])
_QUOTAS: Final = st.builds(
    Quota,
    st.sampled_from([1, 1, 1, 2**40 - 1]),
    st.sampled_from(["producer_request_hold", "producer_exception", EVICTS]),
)
VALUES: Final[Mapping[PolicyKind, st.SearchStrategy[PolicyValue]]] = {
    "producers": COUNTS,
    "consumers": COUNTS,
    "consumers of a subscription": st.sampled_from([1, 1, 2, 3]),
    "subscriptions": st.sampled_from([2, 3, 3, 4]),
    "message size": st.sampled_from([1000, 2000]),
    "subscription types": st.sampled_from(
        [("Shared",), ("Exclusive", "Failover"), ("Key_Shared", "Shared"), ("Exclusive", "Key_Shared", "Shared")]
    ),
    "backlog size": _QUOTAS,
    "dispatch rate": st.sampled_from([20, 50]),
    "subscription dispatch rate": st.sampled_from([20, 50]),
    "publish rate": st.sampled_from([20, 50]),
}
"""Limits that the clients here reach, and rates that slow them down."""
HAVE_NO_ZERO: Final = frozenset[PolicyKind](
    {"subscription types", "backlog size", "dispatch rate", "subscription dispatch rate", "publish rate"}
)
NO_LIMIT: Final = 0
DAY_S: Final = 24 * 3600


def _joins(subscriptions: tuple[str, ...], kinds: st.SearchStrategy[SubscriptionType]) -> st.SearchStrategy[Step]:
    return st.builds(
        lambda consumer, subscription, kind: Subscribe(consumer, TOPIC, subscription, kind),
        st.sampled_from(CONSUMERS),
        st.sampled_from(subscriptions),
        kinds,
    )


_OPENS: Final = st.sampled_from([OpenProducer(name, TOPIC, name) for name in PRODUCERS])
_CLOSES: Final = st.sampled_from([end(name) for name in PRODUCERS for end in (CloseProducer, CrashProducer)])
_LEAVES: Final = st.sampled_from([end(name) for name in CONSUMERS for end in (CloseConsumer, CrashConsumer)])
_CREATES: Final = st.sampled_from([CreateSubscription(TOPIC, name) for name in SUBSCRIPTIONS])
_DELETES: Final = st.sampled_from([DeleteSubscription(TOPIC, name) for name in SUBSCRIPTIONS])
_SHARED: Final[st.SearchStrategy[SubscriptionType]] = st.just("Shared")
_ONE_TYPE: Final[st.SearchStrategy[SubscriptionType]] = st.sampled_from(["Shared", "Shared", "Shared", "Failover"])
_DEDUPLICATES: Final = st.just(SetDeduplication(TOPIC, "topic", on=True))
_EMPTIES: Final = st.sampled_from([SkipAll(TOPIC, name) for name in ("s0", "s1")])
_SENDS: Final = st.sampled_from([0, 0, 500])
_RECEIVES: Final = st.builds(Receive, st.sampled_from(CONSUMERS[:2]), st.integers(1, 9))
_THROTTLED: Final = st.one_of(_SENDS, _SENDS, _joins(("s0", "s1"), _SHARED), _RECEIVES, _LEAVES)
ACTS: Final[Mapping[PolicyKind, st.SearchStrategy[Step]]] = {
    "producers": st.one_of(_OPENS, _OPENS, _CLOSES),
    "consumers": st.one_of(_joins(("s1", "l0", "l1"), _SHARED), _joins(("s1", "l0"), _SHARED), _LEAVES),
    "consumers of a subscription": st.one_of(_joins(("s1", "l0"), _ONE_TYPE), _joins(("l0",), _ONE_TYPE), _LEAVES),
    "subscriptions": st.one_of(_CREATES, _CREATES, _joins(SUBSCRIPTIONS, _SHARED), _LEAVES, _DELETES),
    "message size": st.sampled_from([0, 500, 1500, 1500, 3000]),
    "subscription types": st.one_of(_joins(SUBSCRIPTIONS, KINDS), _joins(SUBSCRIPTIONS, KINDS), _LEAVES),
    "backlog size": st.one_of(_OPENS, _OPENS, _CLOSES, _EMPTIES, _EMPTIES, _DEDUPLICATES, _THROTTLED, st.none()),
    "dispatch rate": _THROTTLED,
    "subscription dispatch rate": _THROTTLED,
    "publish rate": _THROTTLED,
    "TTL": st.sampled_from([0, Unload(TOPIC)]),
    "deduplication": st.sampled_from([0, Unload(TOPIC)]),
}
"""What a policy of each kind may refuse, and what makes room."""


_LEVELS: Final[st.SearchStrategy[PolicyLevel]] = st.sampled_from(["topic", "namespace"])


def _sets(kind: PolicyKind, *, is_removed: bool = True) -> st.SearchStrategy[Step]:
    """Requests that set policies, or remove them, too."""
    match kind:
        case "TTL":  # longer than any message waits
            seconds = st.sampled_from([DAY_S, 2 * DAY_S])
            return st.builds(SetTtl, st.just(TOPIC), seconds | st.none() if is_removed else seconds, _LEVELS)
        case "deduplication":
            return st.builds(SetDeduplication, st.just(TOPIC), _LEVELS, st.booleans())
        case _:
            values: st.SearchStrategy[PolicyValue | None] = VALUES[kind]
            if is_removed:
                values = values | (values if kind in HAVE_NO_ZERO else st.just(NO_LIMIT)) | st.none()
            return st.builds(SetPolicy, st.just(TOPIC), st.just(kind), values, _LEVELS)


def _steps(kind: PolicyKind) -> st.SearchStrategy[list[Step]]:
    acts: st.SearchStrategy[Step] = ACTS[kind]
    others: st.SearchStrategy[Step] = st.one_of(_sets(kind), st.just(ReadPolicy(TOPIC, kind)), st.just(Unload(TOPIC)))
    first = _sets(kind, is_removed=False)
    then = st.lists(st.one_of(acts, acts, acts, others), min_size=3, max_size=9)
    return st.builds(lambda one, more: [one, *more], first, then)


def _lives(kind: PolicyKind) -> st.SearchStrategy[tuple[list[Step], list[Step]]]:
    reads: st.SearchStrategy[Step] = st.just(ReadPolicy(TOPIC, kind))
    after = st.lists(st.one_of(ACTS[kind], ACTS[kind], reads), min_size=4, max_size=9)
    return st.tuples(_steps(kind), after)


KINDS_OF_POLICIES: Final[tuple[PolicyKind, ...]] = tuple(ACTS)
STEPS: Final[st.SearchStrategy[list[Step]]] = st.sampled_from(KINDS_OF_POLICIES).flatmap(_steps)
"""A policy is set, and clients come and go; it is changed, removed, read back, and the topic is reloaded."""


LIVES: Final = st.sampled_from(KINDS_OF_POLICIES).flatmap(_lives)
"""The same, and what clients do when the broker has crashed."""


class UnderPolicies(OnSubscriptions):
    """The base of machines whose topics have policies; it has no rules."""

    def live_under_policies(self, steps: list[Step]) -> None:
        """Perform these steps."""
        for step in steps:
            if isinstance(step, int):
                self._send_sized(step)
            elif step is None:
                self.produce_again()
            else:
                self.do(step)
            if isinstance(step, Unload):
                self.disconnected()

    def lift_policies(self, steps: list[Step]) -> None:
        """Remove the policies that these steps set; then the clients leave that came with them."""
        for kind in sorted({step.kind for step in steps if isinstance(step, SetPolicy)}):
            for level in get_args(PolicyLevel):
                self.do(SetPolicy(TOPIC, kind, None, level))
        for scope in sorted({step.scope for step in steps if isinstance(step, SetTtl)}):
            self.do(SetTtl(TOPIC, None, scope))

    def end_clients(self) -> None:
        """The clients that came and went leave, and their subscriptions are deleted."""
        for name in PRODUCERS:
            self.do(CloseProducer(name))
        for name in CONSUMERS:
            self.do(CloseConsumer(name))
        for name in SUBSCRIPTIONS:
            self.do(DeleteSubscription(TOPIC, name))
        self.produce_again()

    def _send_sized(self, size_bytes: int) -> None:
        (entry,) = self.plan.entries([1])
        message = structs.replace(entry.messages[0], size_bytes=size_bytes, delay_ms=0)
        self.do(Send(session=f"p-{TOPIC}", entries=(Entry((message,)),)))


class _OnOneTopic(UnderPolicies):
    @initialize(has_own_namespace=st.booleans())
    def begin(self, has_own_namespace: bool) -> None:
        """A topic with two subscriptions."""
        self.create(TOPIC, "every-ack", ("Shared", "Shared"), has_namespace=has_own_namespace)


class PoliciesMachine(_OnOneTopic):
    """Clients reach the limits of policies, which are changed and removed."""

    @rule(steps=STEPS)
    def live(self, steps: list[Step]) -> None:
        """A policy is set, clients reach its limit, and it is removed again."""
        self.live_under_policies(steps)
        self.lift_policies(steps)
        self.end_clients()


class PoliciesKillsMachine(_OnOneTopic):
    """The broker is killed and restarted under policies, which are in force afterwards as before."""

    crashes: ClassVar[tuple[Crash, ...]] = (*IN_PLACE, Kill())

    @rule(lives=LIVES, crash=CRASHES)
    def live_and_die(self, lives: tuple[list[Step], list[Step]], crash: int) -> None:
        """Clients are at a limit, the broker crashes, and they come back."""
        before, after = lives
        self.live_under_policies(before)
        self.do(self.crashes[crash % len(self.crashes)])
        self.disconnected()
        self.live_under_policies(after)
        self.lift_policies(before)
        self.end_clients()


class PoliciesTakeoversMachine(PoliciesKillsMachine):
    """Another broker takes the topic over, and has the policies in force."""

    crashes = takeovers(TOPIC)
