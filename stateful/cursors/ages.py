"""The ages of messages: in some examples, the first ones were published hours before they are sent.

They are as old as messages that waited in the queue of a producer. So a TTL of an hour tells them from the others, and
nobody has to wait. Later messages are never older, as with a producer whose clock is right.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from hypothesis import strategies as st

Ages = tuple[tuple[int, int], ...]
"""How many messages have an age, in turn, and the age in seconds; after these none has."""

HOUR_S: Final = 3600
_AGED: Final[st.SearchStrategy[Ages]] = st.tuples(
    st.tuples(st.integers(1, 9), st.just(4 * HOUR_S)), st.tuples(st.integers(0, 9), st.just(2 * HOUR_S))
)
AGES: Final[st.SearchStrategy[Ages]] = st.just(()) | _AGED

LIMITS_S: Final[st.SearchStrategy[int]] = st.sampled_from(
    [1, HOUR_S // 2, HOUR_S // 2, HOUR_S // 2, 5 * HOUR_S // 2, 6 * HOUR_S]
)
"""How old messages may be: one second; less than all aged ones, than the oldest, than none."""


def age_of(ages: Ages, number: int) -> int:
    """The age of the message after so many."""
    ends = accumulate(count for count, _ in ages)
    return next((age_s for end, (_, age_s) in zip(ends, ages, strict=True) if number < end), 0)
