"""How the time of a run is divided: the reserve for its end, and the time beyond its budget."""

from __future__ import annotations

ON_TOP_AT_MOST_S = 300.0
"""The longest time that a run may take beyond its budget."""


def reserve_s(budget_s: float) -> float:
    """The seconds of a budget in reserve for the last operation, the stop of the broker and the reports."""
    return min(10.0, 0.07 * budget_s)


def on_top_s(budget_s: float) -> float:
    """The seconds beyond the budget in which a run may replay violations that have not come back.

    As long as the budget itself, within a limit: thirty replays of one example take minutes.
    """
    return min(ON_TOP_AT_MOST_S, budget_s)
