"""The times of the proxy's events, as histories have them."""

from __future__ import annotations

from typing import Final

NOTICED_WITHIN_NS: Final = 5_000_000_000
"""How long before the proxy the broker may notice the end of a connection."""


def ns(at_s: float) -> int:
    """Seconds of the monotonic clock in nanoseconds."""
    return round(at_s * 1e9)
