"""The suite's options and machines in plain pytest, in a project that has the suite installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker

PLUGIN = ("-p", "conformance.pytest_plugin")
"""What the entry point loads; named here so that the tests hold where the suite is not installed."""


def pytest_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project of its own, on one test that asks for the shared broker if it has no other."""
    if not list(folder.glob("test_*.py")):
        (folder / "test_one.py").write_text("def test_one(pulsar_broker): assert pulsar_broker.is_alive()\n")
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def addresses(broker: Broker) -> str:
    return f"{broker.addresses.service_url},{broker.addresses.admin_url}"


@pytest.mark.parametrize("option", ["--broker", "--pulsar-broker"])
def test_the_shared_broker_is_the_one_named_by_the_option(option: str, broker: Broker, tmp_path: Path) -> None:
    run = pytest_run(tmp_path, option, addresses(broker))
    assert run.returncode == 0
    assert "1 passed" in run.stdout


def test_the_machines_run_in_any_project(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "test_of_its_own.py").write_text("def test_one(): pass\n")
    chosen = ("--pulsar-rules", "DEDUP-02", "--pulsar-budget-s", "15", "-k", "deduplication]")
    run = pytest_run(tmp_path, "--pyargs", "stateful", "--broker", addresses(broker), "--pulsar-seed", "7", *chosen)
    assert "pulsar-conformance: seed 7" in run.stdout
    assert "1 passed" in run.stdout, run.stdout
    assert (tmp_path / "reports" / "pytest" / "journal.jsonl").stat().st_size > 0


def test_an_unavailable_broker_ends_the_run_with_status_2_and_one_sentence(tmp_path: Path) -> None:
    run = pytest_run(tmp_path, "--broker", "no-such-thing")
    assert run.returncode == 2
    assert "'no-such-thing' names no broker" in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


OWN_OPTIONS = """
import pytest

def pytest_addoption(parser):
    for name in ("--broker", "--seed", "--rules", "--report", "--known", "--setting"):
        parser.addoption(name, default="default")

def pytest_configure(config):
    config.addinivalue_line("markers", "machine: of the project's own")
    config.addinivalue_line("markers", "replay: of the project's own")

@pytest.fixture
def broker(request):
    return request.config.getoption("--broker")
"""
OWN_TEST = """
import sys
import pytest

@pytest.mark.machine
@pytest.mark.replay
def test_one(broker, request):
    assert broker == "mine"
    assert request.config.getoption("--pulsar-broker") == "4.0.8"
    heavy = {"pulsar", "urllib3", "jgo", "msgspec", "networkx"} & set(sys.modules)
    mine = {name for name in sys.modules if name.partition(".")[0] in ("conformance", "model", "stateful")}
    assert not heavy and mine <= {"conformance", "conformance.pytest_plugin"}
"""


def test_a_project_that_does_not_use_the_suite_keeps_its_options_markers_and_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OWN_OPTIONS)
    (tmp_path / "test_one.py").write_text(OWN_TEST)
    run = pytest_run(tmp_path, "--broker", "mine", "--strict-markers", "-W", "error")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "pulsar-conformance: seed" not in run.stdout
