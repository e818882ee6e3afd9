"""How messages expire by their age: by a TTL for a while or for good, or by requests for one or all subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from model.expiry_operations import ExpireOlder, ExpiryRequest, SetTtl
from stateful.cursors.ages import LIMITS_S

Expiring = Callable[[str, str], ExpiryRequest]
"""A request about a topic and a subscription of it."""


def _one(seconds: int) -> Expiring:
    return lambda topic, subscription: ExpireOlder(topic, subscription, seconds)


def _all(seconds: int) -> Expiring:
    return lambda topic, subscription: ExpireOlder(topic, None, seconds)  # noqa: ARG005


def _topic_ttl(seconds: int) -> Expiring:
    return lambda topic, subscription: SetTtl(topic, seconds)  # noqa: ARG005


def _namespace_ttl(seconds: int) -> Expiring:
    return lambda topic, subscription: SetTtl(topic, seconds, "namespace")  # noqa: ARG005


EXPIRING: Final[st.SearchStrategy[Expiring]] = st.one_of(
    LIMITS_S.map(_one),
    LIMITS_S.map(_all),
    LIMITS_S.map(_topic_ttl),
    LIMITS_S.map(_topic_ttl),
    LIMITS_S.map(_namespace_ttl),
)
"""Any request that expires messages by their age."""
