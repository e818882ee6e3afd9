"""What administrators do to a subscription at any of several clusters."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.cluster_operations import AdministerAt, AdministratorsRequest, ReadClusters
from model.subscription_operations import (
    AckById,
    CreateSubscription,
    DeleteSubscription,
    Expire,
    Receive,
    ResetCursor,
    Skip,
    SkipAll,
)
from model.vocabulary import Start
from stateful.replication.base import COUNTS, PLACES, SUBSCRIPTIONS, TOPIC, OnClusters

Act = Literal["skip", "skip all", "expire", "reset", "delete", "create"]
ACTS: st.SearchStrategy[Act] = st.sampled_from(get_args(Act))
"""What an administrator does to a subscription."""
FIRST_ACTS: st.SearchStrategy[list[Act]] = st.lists(ACTS, max_size=2)
"""The same before anything else is done."""


class AdministratorsAtClusters(OnClusters):
    """The base of machines in which they do."""

    @rule(place=PLACES, there=PLACES, subscription=SUBSCRIPTIONS, act=ACTS, count=COUNTS)
    def administer(self, place: int, there: int, subscription: str, act: Act, count: int) -> None:
        """An administrator changes a subscription at a cluster; then a consumer there goes on, which others follow."""
        consumer = self.consumer(subscription, place)
        first = len(self.published)
        self.publish_at(self.at(place), count + 1)
        self.publish_at(self.at(there), 1)
        self.do(Receive(consumer, 100))
        if act in ("reset", "delete", "create"):
            self.leave(subscription, place)
        for asked in self.asked(subscription, act, first, count):
            self.do(AdministerAt(self.at(place), asked))
        self.do(ReadClusters(TOPIC))
        self.publish_at(self.at(place), 2)
        consumer = self.consumer(subscription, place)
        self.do(Receive(consumer, 100))
        self.do(AckById(consumer, tuple(self.published[-2:-1])))
        self.do(ReadClusters(TOPIC))

    def asked(self, subscription: str, act: Act, first: int, count: int) -> tuple[AdministratorsRequest, ...]:
        """What an administrator requests, of messages of which these are the last ones."""
        message = self.published[max(first - 2, 0)] if count % 2 else self.published[first]
        match act:
            case "skip":
                return (Skip(TOPIC, subscription, 1 + count // 3),)
            case "skip all":
                return (SkipAll(TOPIC, subscription),)
            case "expire":
                return (Expire(TOPIC, subscription, message),)
            case "reset":
                return (ResetCursor(TOPIC, subscription, message if count < 6 else None),)
            case "delete":
                return (DeleteSubscription(TOPIC, subscription),)
            case "create":
                starts: tuple[Start, ...] = ("earliest", "latest")
                create = CreateSubscription(
                    TOPIC, subscription, starts[count % 2], is_replicated=self.are_subscriptions_replicated
                )
                return (DeleteSubscription(TOPIC, subscription), create)
            case _:
                assert_never(act)
