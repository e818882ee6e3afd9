"""How the time of a run is shared out: what is kept for its end, and what it may take on top of its budget."""

from __future__ import annotations

ON_TOP_AT_MOST_S = 300.0
"""No run takes longer than this on top of its budget, in seconds."""


def reserve_s(budget_s: float) -> float:
    """Seconds of a budget that are kept for the end: the last operation, which may find that a client has stalled, is
    done, the broker is stopped and the reports are written."""
    return min(10.0, 0.07 * budget_s)


def on_top_s(budget_s: float) -> float:
    """Seconds that a run may take on top of its budget, to replay the violations that did not come back yet.

    As long as the budget itself, within a limit: thirty replays of one example take minutes. A run in which nothing is
    in doubt takes none of it.
    """
    return min(ON_TOP_AT_MOST_S, budget_s)
