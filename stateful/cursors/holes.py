"""Many holes between acknowledgments, in a topic beside another one: how they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from model.hole_operations import MakeHoles

Holed = Callable[[str], MakeHoles]
"""How holes are made, beside a topic."""


def _made(count: int, stride: int, first: int, awaits: bool = False) -> Holed:
    return lambda topic: MakeHoles(topic, count, stride, first, awaits)


_COUNTS: Final = st.sampled_from([0, 5, 12, 30, 30, 60, 200])
"""How many messages are sent: they fill ledgers, and make more ranges than some brokers of a swarm persist."""
_STRIDES: Final = st.sampled_from([1, 2, 2, 2, 3, 5])
_FIRSTS: Final = st.sampled_from([0, 1, 1, 2, 3, 7, 40])
HOLES: Final[st.SearchStrategy[Holed]] = st.builds(_made, _COUNTS, _STRIDES, _FIRSTS)
HOLES_BEFORE_KILLS: Final[st.SearchStrategy[Holed]] = st.builds(_made, _COUNTS, _STRIDES, _FIRSTS, st.booleans())
"""Some of them are persisted before the kill."""
