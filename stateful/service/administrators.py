"""What administrators request for a namespace or a bundle, and two of them at once for one subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from model.administrator_operations import ClearBacklog, Concurrent
from model.operations import AnyOperation
from model.read_operations import AnalyzeBacklog
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    PeekMessage,
    ResetCursor,
    Skip,
    SkipAll,
)
from model.vocabulary import WideScope

Widely = Callable[[str, str], AnyOperation]
"""A request for a topic's namespace, and a subscription there."""
Requested = Callable[[str, str, str], Concurrent]
"""A request about a topic, a subscription of it, and a message that was sent to it."""

SCOPES: Final[st.SearchStrategy[WideScope]] = st.sampled_from(["namespace", "bundle"])


def _clear_all(scope: WideScope) -> Widely:
    return lambda topic, subscription: ClearBacklog(topic, scope)  # noqa: ARG005


def _clear(scope: WideScope) -> Widely:
    return lambda topic, subscription: SkipAll(topic, subscription, scope)


def _unsubscribe(scope: WideScope) -> Widely:
    return lambda topic, subscription: DeleteSubscription(topic, subscription, scope=scope)


WIDELY: Final[st.SearchStrategy[Widely]] = st.one_of(
    SCOPES.map(_clear_all), SCOPES.map(_clear), SCOPES.map(_clear), SCOPES.map(_unsubscribe)
)
"""Any request for a namespace about its subscriptions."""


def _skip(count: int) -> Requested:
    return lambda topic, subscription, message: Skip(topic, subscription, count)  # noqa: ARG005


def _skip_all(topic: str, subscription: str, message: str) -> Concurrent:  # noqa: ARG001
    return SkipAll(topic, subscription)


def _reset(after: bool | None) -> Requested:
    """``after``: to the entry after a message; None: to the earliest."""
    return lambda topic, subscription, message: ResetCursor(
        topic, subscription, None if after is None else message, after=bool(after)
    )


def _delete(by_force: bool) -> Requested:
    return lambda topic, subscription, message: DeleteSubscription(topic, subscription, by_force)  # noqa: ARG005


def _create(topic: str, subscription: str, message: str) -> Concurrent:  # noqa: ARG001
    return CreateSubscription(topic, subscription)


def _peek(topic: str, subscription: str, message: str) -> Concurrent:  # noqa: ARG001
    return PeekMessage(topic, subscription, 1)


def _analyze(topic: str, subscription: str, message: str) -> Concurrent:  # noqa: ARG001
    return AnalyzeBacklog(topic, subscription)


REQUESTS: Final[st.SearchStrategy[Requested]] = st.one_of(
    st.integers(1, 5).map(_skip),
    st.just(_skip_all),
    st.sampled_from([None, False, True]).map(_reset),
    st.sampled_from([None, False, True]).map(_reset),
    st.booleans().map(_delete),
    st.just(_create),
    st.sampled_from([_peek, _analyze]),
)
"""What an administrator may request beside another one."""
