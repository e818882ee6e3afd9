"""The entry point ``pytest11``: the suite's options and the fixture ``pulsar_broker`` in every pytest.

Any project with the suite installed loads this module. So it imports the suite only on use, and everything it adds is
named ``pulsar``. :mod:`conformance.engine.plugin` has the run, and is loaded when the machines' folder is collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.brokers.interface import Broker

NAME = "conformance.pytest_plugin"
"""The name of the entry point, which is this module's, so that ``-p`` and the entry point are one plugin."""

DEFAULT_BROKER = "4.0.8"
SHORT = "--broker"
"""A short form of ``--pulsar-broker``, unless another plugin or conftest has this option."""

MARK = "pulsar_machine"
"""The marker of tests that run a machine; its argument is the :class:`~conformance.engine.machines.Machine`."""

REPLAY_MARK = "pulsar_replay"
"""The marker of the test that replays a saved history."""

_FREE = object()
_BROKER_DEST = "pulsar_broker"
_BROKER_HELP = (
    "what to run against: a version, dist:PATH, container:TAG, container:IMAGE, "
    f"or pulsar://host:port,http://host:port (default: {DEFAULT_BROKER})"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run, all of which begin with ``--pulsar-``."""
    group = parser.getgroup("pulsar-conformance")
    group.addoption("--pulsar-broker", default=DEFAULT_BROKER, metavar="BROKER", help=_BROKER_HELP)
    group.addoption("--pulsar-brokers", type=int, default=1, metavar="N", help="how many brokers (default: 1)")
    group.addoption("--pulsar-bookies", type=int, default=1, metavar="N", help="how many bookies (default: 1)")
    group.addoption(
        "--pulsar-drivers",
        metavar="JSON",
        help="names and commands of clients' drivers; null: pulsar-client",
    )
    group.addoption("--pulsar-seed", type=int, metavar="N", help="the seed that everything random follows from")
    group.addoption("--pulsar-rules", help="the rules to decide: ids and families, separated by commas")
    group.addoption("--pulsar-known", help="names of known deviations, by commas (default: those shipped)")
    group.addoption("--pulsar-defect", metavar="NAME", help="the seeded defect to switch on")
    group.addoption(
        "--pulsar-settings", default="quick", metavar="quick|shipped|swarm", help="which settings (default: quick)"
    )
    group.addoption(
        "--pulsar-setting", action="append", default=[], metavar="NAME=VALUE", help="a broker setting; may be repeated"
    )
    group.addoption(
        "--pulsar-report",
        type=Path,
        default=Path("reports/pytest"),
        metavar="FOLDER",
        help="the folder for histories (default: reports/pytest)",
    )
    group.addoption(
        "--pulsar-budget-s", type=float, metavar="S", help="seconds for everything, the broker's start included"
    )
    group.addoption(
        "--pulsar-shortening-s", type=float, metavar="S", help="seconds to make a history short, on top of that"
    )
    group.addoption(
        "--pulsar-lanes", type=int, default=1, metavar="N", help="how many examples run at once (default: 1)"
    )
    group.addoption("--pulsar-coverage", type=Path, metavar="FILE", help="prefer what this file lacks")
    group.addoption("--pulsar-replay", type=Path, metavar="FILE", help="replay a history, run no machine")
    group.addoption("--pulsar-times", type=int, default=1, metavar="N", help="how often to replay it")
    group.addoption("--pulsar-connection", type=int, metavar="FD", help="a pipe with the options of the connection")
    group.addoption("--pulsar-run-name", metavar="NAME", help="the run's name on a running cluster")
    group.addoption("--pulsar-tenant", metavar="TENANT", help="on a running cluster: make namespaces in this tenant")
    group.addoption(
        "--pulsar-allow-cluster-settings", action="store_true", help="change a running cluster's dynamic settings"
    )
    group.addoption("--pulsar-events", type=Path, metavar="FILE", help="where to write the events, as JSON lines")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the machines' tests, which may be imported outside of their folder."""
    config.addinivalue_line("markers", f"{MARK}(machine): runs a machine on the session's broker")
    config.addinivalue_line("markers", f"{REPLAY_MARK}: replays a saved history on the session's broker")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Iterator[None]:
    """Add ``--broker`` after all plugins and conftests, if none of them has this option."""
    yield
    if early_config.getoption(SHORT, default=_FREE) is _FREE:
        parser.getgroup("pulsar-conformance").addoption(
            SHORT, dest=_BROKER_DEST, default=DEFAULT_BROKER, metavar="BROKER", help="the same, where the name is free"
        )


@pytest.fixture(scope="session")
def pulsar_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker of ``--pulsar-broker``, started once per session; a harness error ends the session."""
    from conformance.brokers.select import parse_broker
    from conformance.brokers.size import Size
    from conformance.clients.security.options import security_in
    from conformance.harness_error import HarnessError

    try:
        security = security_in(os.environ)
        option = request.config.getoption
        size = Size(brokers=option("--pulsar-brokers"), bookies=option("--pulsar-bookies"))
        shared = parse_broker(option("--pulsar-broker"), security=security, size=size)
        shared.start()
    except HarnessError as harness_error:
        pytest.exit(str(harness_error), returncode=2)
    try:
        yield shared
    finally:
        shared.stop()
