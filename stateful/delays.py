"""Delayed messages: in some examples, single messages have delays.

Delays are short, so that messages become due within a few operations, or when the example ends at the latest.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

Delays = tuple[int, ...]
"""The delays in milliseconds, in turn; 0: none."""

DELAYS: Final[st.SearchStrategy[Delays]] = st.just(()) | st.lists(
    st.sampled_from([0, 0, 40, 100, 300, 600]), min_size=1, max_size=4
).map(tuple)


def delay_of(delays: Delays, number: int, *, batch_size: int = 1) -> int:
    """The delay of a message with this number; a batch has none."""
    return delays[number % len(delays)] if delays and batch_size == 1 else 0
