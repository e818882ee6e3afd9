"""Settings for all tests: Hypothesis has no deadline, and the scheduling of tests to processes."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from conformance.brokers.interface import Broker
from conformance.engine.execution import spare_the_collector
from tests.scheduling import WITH_BROKERS, ShareScheduling, check_shares, share_of
from tests.tiers import DAYS, RATE, divided, today

settings.register_profile("slow days", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow days")


@pytest.fixture(scope="session")
def broker(pulsar_broker: Broker) -> Broker:
    """The session's one broker, which ``--broker`` names."""
    return pulsar_broker


ALL_COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""The tests that were collected, those of other days included."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption(
        "--tier",
        choices=("change", "all"),
        default="all",
        help="change: what every change runs, and a seventh of the rest (tests/tiers.py)",
    )
    group.addoption(
        "--day",
        type=int,
        choices=range(DAYS),
        help="which seventh of the rest; the default depends on the date",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.tier == "all":
        return None
    day = config.option.day
    return f"tests: those of every change, and of the rest the share of day {day} of 0 to {DAYS - 1}; again: DAY={day}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """All processes run the share of one day, even if they begin beside midnight."""
    node.workerinput["day"] = node.config.option.day


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that would start a second broker or a second Spark ends the run, with ``-n`` or without.

    A test that fails on a real broker is run once more, like a violation is replayed before it is believed: in every
    run of three thousand tests some meet a stall of busy cores. A test that fails twice has failed. The summary lists
    the tests that passed the second time (``-rR``); they have to be fixed, too.
    """
    check_shares(items)
    config.stash[ALL_COLLECTED] = items.copy()
    if config.option.tier == "change":
        items[:], left_out = divided(items, config.option.day)
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if share_of(item.nodeid) in WITH_BROKERS:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """What was collected stays, and need not be scanned for garbage in each test."""
    spare_the_collector()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How often races came back: figures, which fail nothing."""
    rates = [
        f"{report.nodeid}: {value}"
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", ())
        if name == RATE and report.when == "call"
    ]
    if rates:
        terminalreporter.section("rates of races")
        for rate in rates:
            terminalreporter.write_line(rate)


class _Failures:
    """Prints each failure when it happens: a run that is ended from outside has no summary."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome in ("failed", "rerun"):
            self._terminal.write_line("")
            self._terminal.write_line(f"{report.outcome}: {report.nodeid}", red=True)
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.day is None:
        config.option.day = getattr(config, "workerinput", {}).get("day", today())
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_Failures(terminal))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ShareScheduling:
    """With ``-n``, :mod:`tests.scheduling` assigns the tests to processes."""
    return ShareScheduling(config, log)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Print the harness error that ends the run in one of several processes; pytest only says that it is gone."""
    if "PYTEST_XDIST_WORKER" in os.environ and isinstance(excinfo.value, pytest.exit.Exception):
        print(excinfo.value.msg, file=sys.stderr)
