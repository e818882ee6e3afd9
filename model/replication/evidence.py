"""The results of checks over the clusters' logs, one for each occasion that exercised a rule."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SLACK_MS = 2000
"""The longest delay between the publish time of a message and its store, or of a timer, on a busy machine."""


class Deviating(Struct, frozen=True):
    """An observation that only a deviation explains: its name, and why; ``others`` would explain it as well."""

    deviation: str
    because: str
    others: frozenset[str] = frozenset()


class Excused(Struct, frozen=True):
    """An undecidable check: the logs do not show whether the rule holds."""


EXCUSED: Final = Excused()

CheckResult = str | Deviating | Excused | None
"""The violation of a rule, without or by a deviation, or None if the rule was exercised and holds."""
