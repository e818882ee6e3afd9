"""How many histories the pipeline and the plain functions agree on: `python -m tests.quality.agreement 400`.

For each invariant it makes up so many histories of what that looks at, compares all verdicts of both, and prints in how
many the invariant was broken. It ends with the first history on which they differ.
"""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, Phase, given, seed, settings

from conformance.history.recorded import Recorded
from tests.pipeline.histories import random_histories


def compared(name: str, number: int) -> int:
    """Compare so many histories of one invariant; in how many of them it was broken."""
    broken = []

    @seed(1)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(random_histories.framed(name))
    def compare(history: list[Recorded]) -> None:
        plainly = random_histories.broken_by_oracle(history)
        assert random_histories.broken_in(random_histories.judged(history)) == plainly, history
        broken.append(name in plainly)

    compare()
    return sum(broken)


def main() -> None:
    """Print a line for each invariant, and the sum."""
    number = int(sys.argv[1])
    for name in random_histories.RELEVANT:
        print(f"{name}: {number} histories, broken in {compared(name, number)}", flush=True)
    print(f"{number * len(random_histories.RELEVANT)} histories, no disagreement")


if __name__ == "__main__":
    main()
