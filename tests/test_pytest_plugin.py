"""Tests of ``--broker`` as plain pytest has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance.brokers.interface import Broker


def pytest_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on one test that asks for the shared broker, in a project of its own, with plugins of these."""
    (folder / "test_one.py").write_text("def test_one(broker): assert broker.is_alive()\n")
    command = [sys.executable, "-m", "pytest", "-p", "conformance.pytest_plugin", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_shared_broker_is_the_one_that_was_named(broker: Broker, tmp_path: Path) -> None:
    run = pytest_run(tmp_path, "--broker", f"{broker.addresses.service_url},{broker.addresses.admin_url}")
    assert run.returncode == 0
    assert "1 passed" in run.stdout


def test_a_broker_that_cannot_be_had_ends_the_run_with_status_2_and_a_sentence(tmp_path: Path) -> None:
    run = pytest_run(tmp_path, "--broker", "no-such-thing")
    assert run.returncode == 2
    assert "'no-such-thing' names no broker" in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
