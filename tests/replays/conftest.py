"""The broker that all stored histories are performed on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.harness_error import HarnessError
from tests.replays.seeding import SeededWorld


@pytest.fixture(scope="package")
def seeded(request: pytest.FixtureRequest) -> Iterator[SeededWorld]:
    """A broker as the machines have it: the histories say what happens with their settings."""
    name: str = request.config.getoption("--broker")
    try:
        made = SeededWorld(name)
    except HarnessError as harness_error:
        pytest.exit(str(harness_error), returncode=2)
    yield made
    made.close()
