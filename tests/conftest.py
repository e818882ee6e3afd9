"""Settings for all tests: Hypothesis has no deadline, and the scheduling of tests to processes."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from conformance.brokers.interface import Broker
from tests.scheduling import BROKERS, Sharing, check_shares, share_of

settings.register_profile("slow days", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow days")


@pytest.fixture(scope="session")
def broker(pulsar_broker: Broker) -> Broker:
    """The session's one broker, which ``--broker`` names."""
    return pulsar_broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that would have a second broker started, or a second Spark, ends the run, with ``-n`` or without.

    What fails on a real broker is tried once more, as a violation is replayed before it is believed: of three thousand
    tests one or another meets a stall of busy cores in every run. What fails twice has failed, and what came out
    differently is told at the end (``-rR``), to be mended all the same.
    """
    check_shares(items)
    for item in items:
        if share_of(item.nodeid) == BROKERS:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    """With ``-n``, the tests are shared out as :mod:`tests.scheduling` says."""
    return Sharing(config, log)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """HarnessError that ends the run in one of several processes is told here: pytest says only that the process is
    gone."""
    if "PYTEST_XDIST_WORKER" in os.environ and isinstance(excinfo.value, pytest.exit.Exception):
        print(excinfo.value.msg, file=sys.stderr)
