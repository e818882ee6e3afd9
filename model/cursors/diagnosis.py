"""The diagnosis for document 003: a rule that was exercised since the last read of the subscription."""

from __future__ import annotations

from collections.abc import Collection

from model.judgement import Broken

FIRST = (
    "SERVE-11",
    "ACK-16",
    "ACK-21",
    "ACK-09",
    "ACK-08",
    "ACK-10",
    "ACK-11",
    "ACK-17",
    "ACK-04",
    "ACK-02",
    "ACK-03",
    "ACK-19",
    "ACK-18",
)
"""The order of diagnosis: requests for a namespace or of two administrators at once, operations that may
lose a whole state, then those that change much of it, then the others.

ACK-15 is about parts of batches only. It is judged where single messages are compared.
"""

OF_BEGINNINGS = frozenset({"ACK-18", "ACK-19"})
"""The rules on where a subscription begins."""


def for_state(since: frozenset[str], because: str, *, is_untouched: bool = False) -> Broken:
    """The state of a subscription is wrong. ``since``: the rules exercised since the last read.

    ``is_untouched``: only other subscriptions had operations.
    """
    return Broken("ACK-05" if is_untouched else likeliest(since), because)


def likeliest(since: frozenset[str]) -> str:
    """The rule that a wrong state most likely breaks, of those exercised."""
    return next((rule for rule in FIRST if rule in since), "ACK-01")


def some(words: Collection[str]) -> str:
    """Up to three of these, and the number of the others."""
    first = sorted(words)[:3]
    more = len(words) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
