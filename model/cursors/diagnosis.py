"""Which rule of document 003 is broken: one that was put to the test since the subscription was last read."""

from __future__ import annotations

from collections.abc import Collection

from model.judgement import Broken

FIRST = ("ACK-16", "ACK-09", "ACK-08", "ACK-10", "ACK-11", "ACK-04", "ACK-02", "ACK-03")
"""What is blamed first: what may lose a whole state, then what changes much of one, then what changes little.

ACK-15 is not among them: it is about parts of batches only, and is judged where single messages are compared.
"""


def for_state(since: frozenset[str], because: str, *, is_untouched: bool = False) -> Broken:
    """The state of a subscription is not what it must be, ``since`` these rules were put to the test on it.

    ``is_untouched``: nothing was done to it, but to others.
    """
    return Broken("ACK-05" if is_untouched else blamed(since), because)


def blamed(since: frozenset[str]) -> str:
    """The rule that is broken if a state is wrong on which these rules were exercised."""
    return next((rule for rule in FIRST if rule in since), "ACK-01")


def some(words: Collection[str]) -> str:
    """A few of these, and how many more there are."""
    first = sorted(words)[:3]
    more = len(words) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
