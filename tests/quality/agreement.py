"""How many histories the pipeline and the plain functions agree on: `python -m tests.quality.agreement 400`.

For each invariant it makes up so many histories of what that looks at, compares all verdicts of both, and prints in how
many the invariant was broken. It ends with the first history on which they differ.
"""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, Phase, given, seed, settings

from conformance.history.recorded import Recorded
from tests.pipeline.made import soup


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
    @given(soup.framed(name))
    def compare(history: list[Recorded]) -> None:
        plainly = soup.plainly_broken(history)
        assert soup.broken_in(soup.judged(history)) == plainly, history
        broken.append(name in plainly)

    compare()
    return sum(broken)


def main() -> None:
    """Print a line for each invariant, and the sum."""
    number = int(sys.argv[1])
    for name in soup.RELEVANT:
        print(f"{name}: {number} histories, broken in {compared(name, number)}", flush=True)
    print(f"{number * len(soup.RELEVANT)} histories, no disagreement")


if __name__ == "__main__":
    main()
