"""More machines of document 004: claimed hash ranges, races, consumers of pulsar-client, kills."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.failpoints import FailpointKind
from model.operations import ClearFailpoints, SetFailpoint
from model.subscription_operations import Acknowledge, CloseConsumer, CrashConsumer, Nack, Permit, Receive, Subscribe
from stateful.crashes import CRASHES, IN_PLACE, Crash
from stateful.delays import DELAYS, Delays
from stateful.key_shared.machines import INDEXES, NAMES, NTH, PERMITS, PICKS, SUBSCRIPTION, TOPIC, OnKeys
from stateful.key_shared.plan import BOUNDS, Claims, KeyedPick, Policy

RACES: st.SearchStrategy[FailpointKind] = st.sampled_from(["read-slow", "dispatch-slow", "join-slow", "leave-slow"])
SINGLES = PICKS.map(lambda picks: [replace(pick, size=1) for pick in picks])
"""Without batches: of one that is acknowledged while it is being sent, more may come than document 003 says."""
FIRST, SECOND, THIRD, FOURTH = BOUNDS[1::2]
CLAIMS: st.SearchStrategy[Claims] = st.sampled_from(
    [
        *[
            ((0, SECOND),),
            ((0, FIRST), (THIRD + 1, FOURTH)),
            ((FIRST + 1, SECOND),),
            ((FIRST + 1, THIRD),),
            ((SECOND, SECOND), (FOURTH + 1, 65535)),
            ((SECOND + 1, THIRD),),
            ((THIRD + 1, 65535),),
        ]
        * 2,
        ((0, 65535),),
        ((FIRST, FIRST),),
        ((SECOND, THIRD),),
        ((0, SECOND), (FIRST, THIRD)),
        (),
    ]
)
"""Ranges that leave gaps between them, or fill one, or overlap in one hash; a consumer's own that overlap; none."""


POLICIES = st.builds(Policy, claims=CLAIMS, out_of_order=st.sampled_from([False] * 7 + [True]))


class KeysClaimedMachine(OnKeys):
    """Consumers claim hash ranges, with gaps between them; the broker refuses overlapping claims.

    It also refuses a consumer without claims among consumers with claims, one that allows out-of-order delivery among
    those that do not, and the reverse. After all have left, the next one has any policy.
    """

    def join_for(self, policy: Policy, permits: int, known_as: str | None = None) -> None:
        """A consumer claims ranges."""
        name = self.plan.fresh_name()
        self.subscribe(name, policy, known_as=known_as)
        if self.plan.may_join(policy):
            self.plan.consumers.append(name)
            self.plan.policies[name] = policy
            self.permit(name, permits)
        self.gather()

    @initialize(picks=PICKS, policy=POLICIES, permits=PERMITS, delays=DELAYS)
    def begin(self, picks: list[KeyedPick], policy: Policy, permits: int, delays: Delays) -> None:
        """A topic with messages, and a consumer that has some of them."""
        self.plan.delays = delays
        self.create()
        self.send_entries(picks)
        self.join_for(policy, permits)

    @rule(policy=POLICIES, permits=PERMITS, known_as=NAMES)
    def another_joins(self, policy: Policy, permits: int, known_as: str | None) -> None:
        """A consumer claims ranges, free or not, or has another policy; maybe it has the name of another one."""
        self.join_for(policy, permits, known_as)

    @rule(picks=PICKS)
    def send(self, picks: list[KeyedPick]) -> None:
        """Send messages, of claimed ranges or of gaps."""
        self.send_entries(picks)
        self.gather()

    @rule(index=INDEXES, nth=NTH, permits=PERMITS)
    def acknowledge(self, index: int, nth: tuple[int, ...], permits: int) -> None:
        """A consumer acknowledges some messages and adds permits."""
        if self.plan.consumers:
            consumer = self.consumer(index)
            self.do(Acknowledge(consumer=consumer, nth=nth))
            self.permit(consumer, permits)

    @rule(index=INDEXES, nth=st.none() | NTH)
    def fail(self, index: int, nth: tuple[int, ...] | None) -> None:
        """A consumer nacks some of its messages, or all."""
        if self.plan.consumers:
            self.do(Nack(consumer=self.consumer(index), nth=nth))
            self.gather()

    @rule(index=INDEXES, crashes=st.booleans(), is_quiet=st.sampled_from([False, False, False, True]))
    def one_leaves(self, index: int, crashes: bool, is_quiet: bool) -> None:
        """A consumer leaves with its pending messages; its ranges have no consumer."""
        if self.plan.consumers:
            consumer = self.consumer(index)
            self.plan.policies.pop(consumer, None)
            self.leave(consumer, crashes=crashes, is_quiet=is_quiet)

    @rule(policy=POLICIES, permits=PERMITS)
    def another_takes_over(self, policy: Policy, permits: int) -> None:
        """All consumers leave, and one with any policy joins."""
        for consumer in list(self.plan.consumers):
            self.leave(consumer, crashes=False)
        self.plan.policies.clear()
        self.join_for(policy, permits)


class KeysRacesMachine(OnKeys):
    """Consumers join, leave, ack and nack while a failpoint slows the broker down between two steps of dispatching."""

    @initialize(picks=SINGLES, permits=PERMITS)
    def begin(self, picks: list[KeyedPick], permits: int) -> None:
        """A topic with messages, and two consumers that have some of them."""
        self.create()
        self.send_entries(picks)
        self.join(permits)
        self.join(permits)

    @rule(
        kind=RACES,
        count=st.integers(1, 3),
        delay_ms=st.sampled_from([20, 60, 120]),
        picks=SINGLES,
        index=INDEXES,
        other=INDEXES,
        nth=NTH,
        meanwhile=st.lists(
            st.sampled_from(["joins", "crashes", "closes", "acknowledges", "fails", "fails with all", "permits"]),
            min_size=1,
            max_size=3,
        ),
    )
    def race(
        self,
        kind: FailpointKind,
        count: int,
        delay_ms: int,
        picks: list[KeyedPick],
        index: int,
        other: int,
        nth: tuple[int, ...],
        meanwhile: list[str],
    ) -> None:
        """While a failpoint delays the dispatch of messages, consumers act."""
        receiver = self.consumer(index)
        self.do(SetFailpoint(topic=TOPIC, kind=kind, count=count, delay_ms=delay_ms))
        self.send_entries(picks)
        self.do(Permit(consumer=receiver, count=3))
        for number, what in enumerate(meanwhile):
            self.do_meanwhile(what, other + number, nth)
        self.gather()
        self.do(ClearFailpoints())

    def do_meanwhile(self, what: str, index: int, nth: tuple[int, ...]) -> None:
        """One operation of a consumer while the broker is slow; its messages are not received after it."""
        if what == "joins" or not self.plan.consumers:
            name = self.plan.fresh_name()
            self.subscribe(name)
            self.plan.consumers.append(name)
            self.do(Permit(consumer=name, count=5))
            return
        consumer = self.plan.consumers[index % len(self.plan.consumers)]
        if what in ("crashes", "closes"):
            self.do(CrashConsumer(consumer) if what == "crashes" else CloseConsumer(consumer))
            self.plan.consumers.remove(consumer)
        elif what == "acknowledges":
            self.do(Acknowledge(consumer=consumer, nth=nth))
        elif what == "permits":
            self.do(Permit(consumer=consumer, count=2))
        else:
            self.do(Nack(consumer=consumer, nth=nth if what == "fails" else None))

    @rule(index=INDEXES, nth=NTH, permits=PERMITS)
    def acknowledge(self, index: int, nth: tuple[int, ...], permits: int) -> None:
        """A consumer acknowledges some messages and adds permits."""
        consumer = self.consumer(index)
        self.do(Acknowledge(consumer=consumer, nth=nth))
        self.permit(consumer, permits)


class KeysClientsMachine(OnKeys):
    """Consumers of pulsar-client beside consumers of the wire client; their queues are known only when they receive."""

    @initialize(picks=PICKS, queue=st.sampled_from([1, 3, 100]), delays=st.none() | DELAYS)
    def begin(self, picks: list[KeyedPick], queue: int, delays: Delays | None) -> None:
        """A topic with messages of either client, and a consumer of each. Only the wire client delays messages."""
        self.producing = "official" if delays is None else "wire"
        self.plan.delays = delays or ()
        self.official: list[str] = []
        self.create()
        self.send_entries(picks)
        self.join_official(queue)
        self.join(2)

    def join_official(self, queue: int) -> None:
        """A consumer of pulsar-client joins."""
        name = self.plan.fresh_name()
        self.do(Subscribe(name, TOPIC, SUBSCRIPTION, kind="Key_Shared", client="official", queue=queue))
        self.official.append(name)
        self.gather()

    @rule(queue=st.sampled_from([1, 3, 100]))
    def another_joins(self, queue: int) -> None:
        """Another consumer of pulsar-client joins."""
        self.join_official(queue)

    @rule(permits=PERMITS)
    def another_joins_on_the_wire(self, permits: int) -> None:
        """Another consumer of the wire client joins."""
        self.join(permits)

    @rule(picks=PICKS)
    def send(self, picks: list[KeyedPick]) -> None:
        """Messages are sent."""
        self.send_entries(picks)
        self.gather()

    @rule(index=INDEXES, count=st.integers(1, 6), nth=NTH)
    def take(self, index: int, count: int, nth: tuple[int, ...]) -> None:
        """A consumer of pulsar-client receives, and acknowledges some."""
        if self.official:
            name = self.official[index % len(self.official)]
            self.do(Receive(consumer=name, count=count))
            self.do(Acknowledge(consumer=name, nth=nth))
            self.gather()

    @rule(index=INDEXES, nth=NTH, permits=PERMITS)
    def acknowledge(self, index: int, nth: tuple[int, ...], permits: int) -> None:
        """A consumer of the wire client acknowledges some messages and adds permits."""
        consumer = self.consumer(index)
        self.do(Acknowledge(consumer=consumer, nth=nth))
        self.permit(consumer, permits)

    @rule(index=INDEXES, crashes=st.booleans())
    def one_leaves(self, index: int, crashes: bool) -> None:
        """A consumer of pulsar-client leaves."""
        if self.official:
            name = self.official.pop(index % len(self.official))
            self.do(CrashConsumer(name) if crashes else CloseConsumer(name))
            self.gather()

    @rule(index=INDEXES, crashes=st.booleans())
    def one_leaves_the_wire(self, index: int, crashes: bool) -> None:
        """A consumer of the wire client leaves."""
        if self.plan.consumers:
            self.leave(self.consumer(index), crashes=crashes)


class KeysKillsMachine(OnKeys):
    """The broker is killed, or restarted, while consumers have pending messages; new ones subscribe."""

    crashes: ClassVar[tuple[Crash, ...]] = IN_PLACE

    @initialize(picks=PICKS, delays=DELAYS)
    def begin(self, picks: list[KeyedPick], delays: Delays) -> None:
        """A topic with messages."""
        self.plan.delays = delays
        self.create()
        self.send_entries(picks)

    @rule(picks=PICKS, permits=PERMITS, nth=NTH, crash=CRASHES)
    def live_and_die(self, picks: list[KeyedPick], permits: int, nth: tuple[int, ...], crash: int) -> None:
        """Consumers join, receive and acknowledge some messages, and the broker is killed; then others do the same."""
        first = self.join(100)
        second = self.join(permits)
        self.send_entries(picks)
        self.gather()
        self.do(Acknowledge(consumer=first, nth=nth))
        self.do(Acknowledge(consumer=second, nth=nth))
        self.gather()
        self.do(self.crashes[crash % len(self.crashes)])
        self.all_are_disconnected()
        self.produce_again()
        self.join(permits)
        self.join(100)


class KeysSwitchedMachine(OnKeys):
    """The topic is unloaded between the implementation with draining hashes and the classic one, if both exist.

    One consumer joins at a time, and everything is acknowledged before the next one joins: the classic implementation
    is known to break the invariant if the replay queue has messages when a consumer joins. All other machines use it,
    too, on a broker that has it.
    """

    @initialize(picks=PICKS, classic=st.booleans())
    def begin(self, picks: list[KeyedPick], classic: bool) -> None:
        """A topic with one of the implementations, and a consumer that has messages."""
        self.create()
        self.switch(classic=classic)
        self.send_entries(picks)
        self.gather()

    @rule(has=PICKS, comes=PICKS, nth=NTH)
    def one_joins(self, has: list[KeyedPick], comes: list[KeyedPick], nth: tuple[int, ...]) -> None:
        """A consumer joins while others have messages; more are sent, and then all are acknowledged step by step."""
        self.send_entries(has)
        self.gather()
        self.join(100)
        self.send_entries(comes)
        self.gather()
        self.acknowledge(nth)
        self.acknowledge_all()

    @rule(picks=PICKS, index=INDEXES, crashes=st.booleans())
    def one_leaves(self, picks: list[KeyedPick], index: int, crashes: bool) -> None:
        """A consumer leaves with its pending messages."""
        leaver = self.consumer(index)
        self.send_entries(picks)
        self.gather()
        self.leave(leaver, crashes=crashes)
        self.acknowledge_all()

    @rule(picks=PICKS, index=INDEXES, nth=NTH, leaves=st.booleans())
    def drain(self, picks: list[KeyedPick], index: int, nth: tuple[int, ...], leaves: bool) -> None:
        """With draining hashes, a consumer joins while another has messages, and more are sent; it may leave again."""
        if self.is_classic:
            return
        self.send_entries(picks)
        self.permit(self.consumer(index), 100)
        passing = self.join(100)
        for _ in range(2):
            self.send_entries(picks)
            self.gather()
        self.acknowledge(nth)
        if leaves:
            self.leave(passing, crashes=False)
        self.acknowledge_all()

    @rule(classic=st.booleans())
    def switch(self, classic: bool) -> None:
        """The topic is unloaded, and then has this implementation."""
        self.is_classic = classic
        self.move(classic=classic)
        self.join(100)

    def acknowledge(self, nth: tuple[int, ...]) -> None:
        """Every consumer acknowledges some of its messages."""
        for consumer in self.plan.consumers:
            self.do(Acknowledge(consumer=consumer, nth=nth))
        self.gather()

    def acknowledge_all(self) -> None:
        """Every consumer acknowledges everything, until nothing more is dispatched."""
        for _ in range(3):
            self.acknowledge(tuple(range(100)))
