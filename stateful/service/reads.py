"""What administrators and clients read beside connected consumers: any request that must change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from hypothesis import strategies as st

from model.read_operations import (
    AnalyzeBacklog,
    ExamineMessage,
    FindByTime,
    Inquire,
    ReadInternals,
    ReadMessage,
    ReadRequest,
    Subject,
)

Asked = Callable[[str, str, str], ReadRequest]
"""A request about a topic, a subscription of it, and a message that was sent to it."""


def _examine(nth: int, from_end: bool) -> Asked:
    return lambda topic, subscription, message: ExamineMessage(topic, nth, from_end=from_end)  # noqa: ARG005


def _inquire(about: Subject) -> Asked:
    return lambda topic, subscription, message: Inquire(topic, about)  # noqa: ARG005


def _read(is_there: bool) -> Asked:
    return lambda topic, subscription, message: ReadMessage(topic, message if is_there else None)  # noqa: ARG005


def _find(is_there: bool) -> Asked:
    return lambda topic, subscription, message: FindByTime(topic, message if is_there else None)  # noqa: ARG005


def _analyze(topic: str, subscription: str, message: str) -> ReadRequest:  # noqa: ARG001
    return AnalyzeBacklog(topic, subscription)


def _internals(topic: str, subscription: str, message: str) -> ReadRequest:  # noqa: ARG001
    return ReadInternals(topic)


READS: Final[st.SearchStrategy[Asked]] = st.one_of(
    st.just(_analyze),
    st.sampled_from([True, True, False]).map(_read),
    st.builds(_examine, st.sampled_from([1, 1, 2, 3, 5, 40]), st.booleans()),
    st.sampled_from([True, True, False]).map(_find),
    st.just(_internals),
    st.sampled_from(get_args(Subject)).map(_inquire),
)
"""Any read. What it names may not exist."""
