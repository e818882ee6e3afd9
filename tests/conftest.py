"""What holds for all tests: no example of Hypothesis fails for a slow day, and how processes share the tests."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.sharing_out import Sharing, check_shares

settings.register_profile("slow days", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow days")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that would have a second broker started, or a second Spark, ends the run, with ``-n`` or without."""
    check_shares(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    """With ``-n``, the tests are shared out as :mod:`tests.sharing_out` says."""
    return Sharing(config, log)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Trouble that ends the run in one of several processes is told here: pytest says only that the process is gone."""
    if "PYTEST_XDIST_WORKER" in os.environ and isinstance(excinfo.value, pytest.exit.Exception):
        print(excinfo.value.msg, file=sys.stderr)
