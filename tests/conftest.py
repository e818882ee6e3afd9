"""Settings for all tests: Hypothesis has no deadline, and the scheduling of tests to processes."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from conformance.brokers.interface import Broker
from tests.scheduling import BROKERS, ShareScheduling, check_shares, share_of

settings.register_profile("slow days", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow days")


@pytest.fixture(scope="session")
def broker(pulsar_broker: Broker) -> Broker:
    """The session's one broker, which ``--broker`` names."""
    return pulsar_broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that would start a second broker or a second Spark ends the run, with ``-n`` or without.

    A test that fails on a real broker is run once more, like a violation is replayed before it is believed: in every
    run of three thousand tests some meet a stall of busy cores. A test that fails twice has failed. The summary lists
    the tests that passed the second time (``-rR``); they have to be fixed, too.
    """
    check_shares(items)
    for item in items:
        if share_of(item.nodeid) == BROKERS:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ShareScheduling:
    """With ``-n``, :mod:`tests.scheduling` assigns the tests to processes."""
    return ShareScheduling(config, log)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Print the harness error that ends the run in one of several processes; pytest only says that it is gone."""
    if "PYTEST_XDIST_WORKER" in os.environ and isinstance(excinfo.value, pytest.exit.Exception):
        print(excinfo.value.msg, file=sys.stderr)
