"""The test of every machine: it runs for its share of the budget and finds no unknown violation.

Which machines there are, and what each decides, is said in the modules ``test_*``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from conformance.engine.machines import Machine
from conformance.engine.run import Run


def exploring(machines: Sequence[Machine]) -> Callable[[Machine, Run], None]:
    """The test of these machines; pytest collects it under the name that its module gives it."""

    @pytest.mark.parametrize(
        "machine", [pytest.param(m, marks=pytest.mark.pulsar_machine(m), id=m.name) for m in machines]
    )
    def test(machine: Machine, conformance_run: Run) -> None:
        """The machine finds no violation that is not a known deviation."""
        violations = conformance_run.explore(machine)
        assert not violations, "\n".join(f"{v.rule}: {v.because}" for v in violations)

    return test
