"""What the plans of machines promise about the messages that are sent."""

from __future__ import annotations

from stateful.cursors.plan import ConsumptionPlan


def test_a_message_after_an_aged_one_is_never_older() -> None:
    """Clients give a delayed message the present time."""
    plan = ConsumptionPlan(delays=(100,), ages=((2, 7200),))
    aged, later = plan.entries([1, 1]), plan.entries([1])
    assert [entry.messages[0].delay_ms for entry in (*aged, *later)] == [0, 0, 100]
    assert plan.age_s == 0
