"""The suite as users have it, a wheel beside the packages that it needs, with another release of pulsar-client."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker
from conformance.events import RunStarted, decode
from tests.package.commands import run

OTHER = "3.3.0"
DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel and what it needs in one folder, as pip installs them."""
    folder = tmp_path_factory.mktemp("with-client") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not any(word in package.name for word in ("pulsar_conformance", "pyspark", ".pth")):
            (packages / package.name).symlink_to(package)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder)
    ran = run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder / "bin" / "pulsar-conformance"


def test_another_client_is_the_one_that_runs_and_the_one_that_is_reported(
    command: Path, broker: Broker, tmp_path: Path
) -> None:
    """The machines are beside pulsar-client there, and pytest must not put their folder into the search path."""
    project = tmp_path / "project"
    (project / "model").mkdir(parents=True)
    for name in ("model/__init__.py", "msgspec.py", "conformance.py", "pulsar.py"):
        (project / name).write_text("raise ImportError('of the project')\n")
    addresses = f"{broker.addresses.service_url},{broker.addresses.admin_url}"
    report = tmp_path / "report"
    asked = ("--broker", addresses, "--client", OTHER, "--rules", "ACK-11", "--budget", "30s", "--lanes", "2")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    ran = subprocess.run(
        [command, "check", *asked, "--report", report],
        cwd=project,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert f"with pulsar-client {OTHER}:" in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stdout + ran.stderr
    events = [decode(line) for line in (report / "events.jsonl").read_bytes().splitlines(keepends=True)]
    (started,) = (event for event in events if isinstance(event, RunStarted))
    assert started.clients["official"] == OTHER
