"""Expiry by time: policies and requests that expire messages by their age, with their outcomes (ACK-17).

A new one needs a class here, and a function for it, found by its type, in :mod:`model.example.expiry`,
:mod:`conformance.lockstep.cursors.expiry` (perform) and :mod:`conformance.report.sentences.expiry` (words). Machines
draw them from :mod:`stateful.cursors.expiry`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from model.policy_operations import SetPolicy
from model.subscription_operations import Expire, Skip, SkipAll
from model.vocabulary import Operation, Outcome


class SetTtl(Operation, frozen=True):
    """Set the message TTL of a topic, or of its namespace if it is of this topic only; None: remove it. TtlSet.

    A broker looks for expired messages when a policy of the topic changes, and periodically.
    """

    request: ClassVar = "set TTL"
    may_be_cause: ClassVar = True

    topic: str
    seconds: int | None
    scope: Literal["namespace", "topic"] = "topic"


class TtlSet(Outcome, frozen=True, omit_defaults=True):
    """The policy is set or removed. ``is_over``: what is older than the TTL had time to expire, as the broker looks for
    it at least once a period; ``not_expired``: how many older entries each subscription has nevertheless."""

    is_over: bool = True
    not_expired: dict[str, int] = {}


class ExpireOlder(Operation, frozen=True):
    """Expire the messages of a subscription that are older, or of all subscriptions (None), in one request.

    OlderExpired.
    """

    request: ClassVar = "expire older"
    may_be_cause: ClassVar = True

    topic: str
    subscription: str | None
    seconds: int


class OlderExpired(Outcome, frozen=True, omit_defaults=True):
    """The broker was asked, and had time; ``not_expired`` as of :class:`TtlSet`."""

    not_expired: dict[str, int] = {}


ExpiryRequest = SetTtl | ExpireOlder
"""Every request that expires messages by their age."""

Skipping = Skip | SkipAll | Expire | SetTtl | ExpireOlder | SetPolicy
"""Every request that acknowledges messages which consumers may have."""

ExpiryAnswer = TtlSet | OlderExpired
"""Every outcome that only these have."""
