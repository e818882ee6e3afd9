"""What readers do on a topic beside its subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hypothesis import strategies as st

from model.reader_operations import (
    CloseReader,
    CutReader,
    HasMessageAvailable,
    OpenReader,
    ReaderOperation,
    ReadNext,
    SeekReader,
)

Opening = Callable[[str, str, Sequence[str]], OpenReader]
"""How a reader opens: its name, its topic, the messages that were sent."""
Reading = Callable[[str, Sequence[str]], ReaderOperation]
"""What an open reader does: its name, the messages that were sent."""

WHICH: Final = st.integers(0, 63)
QUEUES: Final = st.sampled_from([0, 0, 2, 100])


def _at_end(start: str, queue: int) -> Opening:
    is_latest = start == "latest"
    return lambda name, topic, sent: OpenReader(  # noqa: ARG005
        name, topic, start="latest" if is_latest else "earliest", queue=queue
    )


def _at_message(which: int, is_inclusive: bool, queue: int) -> Opening:
    return lambda name, topic, sent: OpenReader(
        name, topic, at=sent[which % len(sent)], is_inclusive=is_inclusive, queue=queue
    )


def _seek(which: int | None, is_inclusive: bool) -> Reading:
    return lambda name, sent: SeekReader(name, None if which is None else sent[which % len(sent)], is_inclusive)


def _read(count: int) -> Reading:
    return lambda name, sent: ReadNext(name, count)  # noqa: ARG005


def _ask(name: str, sent: Sequence[str]) -> ReaderOperation:  # noqa: ARG001
    return HasMessageAvailable(name)


def _cut(name: str, sent: Sequence[str]) -> ReaderOperation:  # noqa: ARG001
    return CutReader(name)


def _close(name: str, sent: Sequence[str]) -> ReaderOperation:  # noqa: ARG001
    return CloseReader(name)


OPENINGS: Final[st.SearchStrategy[Opening]] = st.builds(
    _at_end, st.sampled_from(["earliest", "earliest", "latest"]), QUEUES
) | st.builds(_at_message, WHICH, st.booleans(), QUEUES)
AT_BEGINNING: Final[st.SearchStrategy[Opening]] = st.just(_at_end("earliest", 0))
"""The opening after which most is left to be read."""
READINGS: Final[st.SearchStrategy[Reading]] = st.one_of(
    st.sampled_from([1, 1, 2, 3, 5, 40]).map(_read),
    st.sampled_from([1, 2, 40]).map(_read),
    st.just(_ask),
    st.builds(_seek, st.none() | WHICH, st.booleans()),
    st.just(_cut),
    st.just(_close),
)
