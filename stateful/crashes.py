"""Crashes of the broker: it restarts, or another broker takes over."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from model.operations import Kill, Restart, TakeOver

Crash = Kill | Restart | TakeOver

CRASHES: Final = st.integers(0, 11)
"""Which of a machine's crashes, round and round."""
IN_PLACE: Final[tuple[Crash, ...]] = (Kill(), Kill(power_fails=True), Restart())
"""The broker that had the topics has them again."""


def takeovers(topic: str) -> tuple[Crash, ...]:
    """Another broker takes over a topic from its owner, in a rolling upgrade one of each release in turn."""
    return (
        TakeOver(topic, "kill", "newer"),
        TakeOver(topic, "kill", "older"),
        TakeOver(topic, "shutdown", "newer"),
        TakeOver(topic, "unload", "older"),
        TakeOver(topic, "unload", "newer"),
        TakeOver(topic, "shutdown", "older"),
    )
