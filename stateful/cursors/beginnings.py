"""Where subscriptions begin and how they end: rules of the machines of document 003.

Subscriptions are created, reset and replaced by administrators and consumers, at each start position, also on topics
that were trimmed, terminated or unloaded.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.operations import Trim, Unload
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Receive,
    ResetCursor,
    Seek,
    SkipAll,
    Unsubscribe,
)
from model.vocabulary import Client, Start, SubscriptionType
from stateful.cursors.base import COUNTS, INDEXES, KINDS, STARTS, TOPIC, OnSubscriptions

Ending = Literal["delete", "force", "unsubscribe"]
"""How a subscription ends: an administrator deletes it, perhaps by force, or a consumer unsubscribes."""

Between = Literal["nothing", "trim", "unload", "send"]
"""What happens before the subscription is created again."""

Beginning = Literal["create", "subscribe", "at", "never"]
"""How it is created again: at a start position by an administrator or a consumer, at a message by an administrator."""

ENDINGS: Final[st.SearchStrategy[Ending]] = st.sampled_from(get_args(Ending))
BETWEEN: Final[st.SearchStrategy[Between]] = st.sampled_from(get_args(Between))
BEGINNINGS: Final[st.SearchStrategy[Beginning]] = st.sampled_from(["create", *get_args(Beginning)])
LATER_MS: Final = st.sampled_from([0, 0, 0, 1, -1, 3, -3, 20, -20, 1000, -1000, 600_000])
"""How much later than the publish time of a message is the time of a reset or a seek."""


class RecreatedSubscriptions(OnSubscriptions):
    """Subscriptions of one topic are reset, and replaced."""

    is_trimmed = False
    is_over = False

    def move(self) -> None:
        """Unload the topic; its producer reloads it."""
        self.do(Unload(topic=TOPIC))
        self.plan.drop_wire()
        self.produce_again()

    @rule(
        index=INDEXES,
        which=st.none() | INDEXES,
        by_time=st.booleans(),
        later_ms=LATER_MS,
        after=st.sampled_from([False, False, True]),
        seeks=st.booleans(),
        count=COUNTS,
    )
    def set_back(
        self, index: int, which: int | None, by_time: bool, later_ms: int, after: bool, seeks: bool, count: int
    ) -> None:
        """An administrator resets a subscription, or a consumer seeks; a consumer continues there.

        Not to a time where messages have ages: releases search for it in the ledger that was open then, as far as the
        clocks of producers and broker agree (managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis).
        """
        by_time = by_time and not self.plan.ages
        to = None if which is None else self.plan.sent[which % len(self.plan.sent)]
        consumer = self.consumer(index)
        subscription = consumer.subscription
        if seeks and consumer.client == "wire":
            self.do(Seek(consumer=consumer.name, to=to, by_time=by_time, later_ms=later_ms if by_time else 0))
        else:
            later_ms, after = (later_ms, False) if by_time else (0, after)
            self.do(ResetCursor(TOPIC, subscription, to=to, by_time=by_time, later_ms=later_ms, after=after))
        self.plan.drop_wire(subscription)
        self.read(subscription)
        again = self.join(subscription, "wire", 0)
        self.do(Receive(consumer=again.name, count=count))

    @rule(
        index=INDEXES,
        ending=ENDINGS,
        between=BETWEEN,
        beginning=BEGINNINGS,
        start=STARTS,
        which=INDEXES,
        kind=KINDS,
        count=COUNTS,
    )
    def replace_subscription(
        self,
        index: int,
        ending: Ending,
        between: Between,
        beginning: Beginning,
        start: Start,
        which: int,
        kind: SubscriptionType,
        count: int,
    ) -> None:
        """A subscription ends, which the broker must refuse while others use it, and is created again."""
        subscription = self.subscription(index)
        is_gone = self.end(subscription, ending, index)
        self.read(subscription)
        match between:
            case "trim" if self.is_trimmed:
                self.do(Trim(topic=TOPIC))
            case "unload":
                self.move()
                self.read(subscription)
            case "send" if not self.is_over:
                self.send_entries([1, 2])
        if not is_gone or beginning == "never":
            return
        self.plan.kinds[subscription] = kind
        match beginning:
            case "create":
                self.do(CreateSubscription(topic=TOPIC, subscription=subscription, start=start))
            case "at":
                at = self.plan.sent[which % len(self.plan.sent)]
                self.do(CreateSubscription(topic=TOPIC, subscription=subscription, at=at))
            case "subscribe":
                self.join(subscription, "wire", 0, start=start)
        self.read(subscription)
        consumer = self.of(subscription)
        self.do(Receive(consumer=consumer, count=count))

    def end(self, subscription: str, ending: Ending, index: int) -> bool:
        """A subscription is deleted, or a consumer unsubscribes; whether it is gone, as far as the plan says."""
        here = [one for one in self.plan.consumers if one.subscription == subscription]
        match ending:
            case "unsubscribe" if here:
                self.do(Unsubscribe(consumer=here[index % len(here)].name))
                is_gone = len(here) == 1
            case "force":
                self.do(DeleteSubscription(topic=TOPIC, subscription=subscription, by_force=True))
                is_gone = True
            case _:
                self.do(DeleteSubscription(topic=TOPIC, subscription=subscription))
                is_gone = not here
        if is_gone:
            self.plan.consumers = [
                one
                for one in self.plan.consumers
                if one.subscription != subscription or (one.client != "wire" and ending == "force")
            ]
        return is_gone

    def of(self, subscription: str) -> str:
        """A consumer of a subscription; a new one if there is none."""
        here = (one.name for one in self.plan.consumers if one.subscription == subscription)
        return next(here, None) or self.join(subscription, "wire", 0).name

    @precondition(lambda self: self.is_trimmed)
    @rule(index=INDEXES, everywhere=st.booleans())
    def trim(self, index: int, everywhere: bool) -> None:
        """One subscription acknowledges everything, or all do; only what all acknowledged may be deleted."""
        for subscription in self.plan.kinds if everywhere else (self.subscription(index),):
            self.do(SkipAll(topic=TOPIC, subscription=subscription))
        self.do(Trim(topic=TOPIC))
        for subscription in self.plan.kinds:
            self.read(subscription)


class RecreatedOnPartitions(OnSubscriptions):
    """Subscriptions of a topic, partitioned or not, are deleted and created again, with consumers of pulsar-client."""

    client: Client = "official"

    @rule(
        index=INDEXES,
        ending=st.sampled_from(["unsubscribe", "unsubscribe", "delete", "force"]),
        creates=st.booleans(),
        start=STARTS,
        count=COUNTS,
    )
    def replace_subscription(self, index: int, ending: Ending, creates: bool, start: Start, count: int) -> None:
        """A consumer unsubscribes, or an administrator deletes a subscription. All partitions get it again."""
        subscription = self.subscription(index)
        here = [one for one in self.plan.consumers if one.subscription == subscription]
        if ending == "unsubscribe" and here:
            self.do(Unsubscribe(consumer=here[index % len(here)].name))
            if len(here) == 1:
                self.plan.consumers.remove(here[0])
        else:
            self.do(DeleteSubscription(topic=TOPIC, subscription=subscription, by_force=ending == "force"))
        self.read(subscription)
        if any(one.subscription == subscription for one in self.plan.consumers):
            return
        if creates:
            self.do(CreateSubscription(topic=TOPIC, subscription=subscription, start=start))
        consumer = self.join(subscription, self.client, 5, start=start)
        self.do(Receive(consumer=consumer.name, count=count))
        self.read(subscription)
