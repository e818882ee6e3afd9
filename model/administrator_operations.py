"""Requests of administrators about all subscriptions of a namespace, and of two administrators at once (SERVE-11).

Requests for a namespace about one subscription or topic are those of :mod:`model.subscription_operations` and
:mod:`model.operations`, with another ``scope``.
"""

from __future__ import annotations

from typing import ClassVar

from model.read_operations import AnalyzeBacklog
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    PeekMessage,
    ResetCursor,
    Skip,
    SkipAll,
)
from model.vocabulary import Operation, WideScope


class ClearBacklog(Operation, frozen=True, omit_defaults=True):
    """Clear the backlog of all subscriptions in a topic's namespace, or in its bundle. Done.

    The namespace is of this topic alone.
    """

    request: ClassVar = "clear backlog"
    may_be_cause: ClassVar = True

    topic: str
    scope: WideScope = "namespace"


Concurrent = CreateSubscription | DeleteSubscription | Skip | SkipAll | ResetCursor | PeekMessage | AnalyzeBacklog
"""What an administrator may request while another one requests something for the same subscription."""


class AtOnce(Operation, frozen=True):
    """Two administrators request something for one subscription at the same time. BothAnswered."""

    request: ClassVar = "two requests"
    may_be_cause: ClassVar = True

    first: Concurrent
    second: Concurrent

    @property
    def topic(self) -> str:
        """The topic of both."""
        return self.first.topic

    @property
    def subscription(self) -> str:
        """The subscription of both."""
        return self.first.subscription


AdministratorRequest = ClearBacklog | AtOnce
"""Every request of this module."""


def requests_of(operation: Operation) -> tuple[Operation, ...]:
    """The requests of an operation: two of two administrators, otherwise itself."""
    return (operation.first, operation.second) if isinstance(operation, AtOnce) else (operation,)
