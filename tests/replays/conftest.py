"""The brokers that stored histories are performed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from conformance.brokers.size import SMALLEST, Size
from conformance.harness_error import HarnessError
from tests.replays.seeded_world import SeededWorld


@pytest.fixture(scope="package")
def seeded_of(request: pytest.FixtureRequest) -> Iterator[Callable[[Size], SeededWorld]]:
    """The brokers as the machines have them, by the size of their deployment; each is started when it is needed."""
    name: str = request.config.getoption("--broker")

    with ExitStack() as started:

        @cache
        def of(size: Size) -> SeededWorld:
            try:
                made = SeededWorld(name, size)
            except HarnessError as harness_error:
                pytest.exit(str(harness_error), returncode=2)
            started.callback(made.close)
            return made

        yield of


@pytest.fixture(scope="package")
def seeded(seeded_of: Callable[[Size], SeededWorld]) -> SeededWorld:
    """A single broker."""
    return seeded_of(SMALLEST)
