"""Gives plain ``pytest`` the option ``--broker`` and the session's one broker, for the suite's tests and its machines.

It decides nothing about what is run on the broker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.systems.security_given import security_in
from conformance.trouble import Trouble

DEFAULT_BROKER = "4.0.8"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--broker``."""
    parser.getgroup("pulsar-conformance").addoption(
        "--broker",
        default=DEFAULT_BROKER,
        metavar="BROKER",
        help="what to run against: a version, dist:FOLDER, container:TAG, container:IMAGE, "
        f"or pulsar://host:port,http://host:port (default: {DEFAULT_BROKER})",
    )


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker named by ``--broker``, started once for the whole session; trouble with it ends the session."""
    try:
        shared = parse_broker(request.config.getoption("--broker"), security=security_in(os.environ))
        shared.start()
    except Trouble as trouble:
        pytest.exit(str(trouble), returncode=2)
    try:
        yield shared
    finally:
        shared.stop()
