"""The container engine of this machine; tests that need it are skipped where there is none."""

from __future__ import annotations

import os

import pytest

from conformance.brokers.containers.engine import DockerClient, connect
from conformance.brokers.containers.image import IMAGE_VARIABLE
from conformance.harness_error import HarnessError


@pytest.fixture(scope="module")
def engine() -> DockerClient:
    """The engine; where one was promised by naming an image, its absence is an error and no reason to skip."""
    try:
        return connect()
    except HarnessError as harness_error:
        if IMAGE_VARIABLE in os.environ:
            raise
        pytest.skip(str(harness_error))
