"""How the time of a run is divided: the reserve for its end, the time beyond its budget, and the times for missing
rules and for shortening histories.

Machines run one after the other, each for its share. If one ends without having exercised all of its rules, it runs
again: before later machines whose rules are all exercised, and in their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing the machines takes a second, and the supervisor only asks for times
    from conformance.engine.machines import Machine

    InLanes = Callable[[Machine], int]
    """In how many lanes a machine runs."""

LANES_GAIN: Final = 3.0
"""How many times as many operations lanes perform, at least. Seen on 4.0.8 with eight lanes on two cores: 350 to 400 a
second of all documents, against 80 of two documents with one example at a time."""
SHORTENING_SHARE: Final = 0.25
"""The largest part of the remaining budget for shortening the first violation's history."""
ON_TOP_AT_MOST_S = 300.0
"""The longest time that a run may take beyond its budget."""


def reserve_s(budget_s: float) -> float:
    """The seconds of a budget in reserve for the last operation, the stop of the broker and the reports."""
    return min(10.0, 0.07 * budget_s)


def least_s(budget_s: float) -> float:
    """The least remaining seconds for a machine: on a loaded machine, the first operations of an example take a second.

    Of a budget of seconds it is the hundredth part.
    """
    return min(1.0, 0.01 * budget_s)


def on_top_s(budget_s: float) -> float:
    """The seconds beyond the budget in which a run may replay violations that have not come back.

    As long as the budget itself, within a limit: thirty replays of one example take minutes.
    """
    return min(ON_TOP_AT_MOST_S, budget_s)


def shortening_s(left_s: float, shortened: int) -> float:
    """How long the history of a violation may be shortened, after those of so many others were.

    Each further one gets half as much of the time left, so that many violations leave most of it to the machines.
    """
    return max(0.0, left_s) * SHORTENING_SHARE * 0.5**shortened


def time_share(machines: Sequence[Machine], later: Sequence[Machine], in_lanes: InLanes) -> float:
    """The part of the time left that these machines get, of all that run ``later``."""
    left = _weight(later, in_lanes)
    return min(1.0, _weight(machines, in_lanes) / left) if left > 0 else 1.0


def _weight(machines: Iterable[Machine], in_lanes: InLanes) -> float:
    """The sum of their shares; machines in lanes need less."""
    return sum(machine.share / min(in_lanes(machine), LANES_GAIN) for machine in machines)


def overdue(ran: Iterable[Machine], later: Iterable[Machine], missing: Set[str]) -> frozenset[str]:
    """The ``missing`` rules that a machine has run for, and that no machine which runs later is expected to exercise.

    A mixed machine performs the operations of others, each of them seldom, and some rules take too long on the shipped
    settings. So neither is expected to exercise a rule.
    """
    expected = {rule for machine in later if is_relied_on(machine) for rule in machine.decides}
    return frozenset(rule for machine in ran for rule in machine.decides if rule in missing) - expected


def is_relied_on(machine: Machine) -> bool:
    """Whether a machine is expected to exercise all of its rules."""
    return machine.document is not None and not machine.on_shipped


def lacks(machine: Machine, missing: Set[str]) -> bool:
    """Whether a machine is relied on for one of the ``missing`` rules."""
    return is_relied_on(machine) and not missing.isdisjoint(machine.decides)


def again_s(left_s: float, later: Sequence[Machine], missing: Set[str], in_lanes: InLanes, *, spent_s: float) -> float:
    """How long machines may run again for overdue rules, before the first of those that run ``later``.

    At most half of the time of later machines without ``missing`` rules, minus what was ``spent_s`` on this before.
    There is none if the first of them has a missing rule, because that comes first.
    """
    if not later or not missing.isdisjoint(later[0].decides):
        return 0.0
    without_missing = [machine for machine in later if missing.isdisjoint(machine.decides)]
    theirs_s = left_s * time_share(without_missing, later, in_lanes)
    return max(0.0, (theirs_s - spent_s) / 2)
