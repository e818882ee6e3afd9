"""The versions that the package declares: the suite works with the lowest and with the newest of each dependency."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker
from tests.package.commands import run

UV = Path(sys.executable).with_name("uv")
LOWEST, NEWEST = "lowest-direct", "highest"


def install(environment: Path, resolution: str, sdist: Path, wheel: Path, *extras: str) -> Path:
    """Install the wheel with the versions of this resolution, and give the folder of its programs."""
    python = environment / "bin" / "python"
    chosen = [argument for extra in extras for argument in ("--extra", extra)]
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("venv", "--python", sys.executable, environment),
        ("pip", "install", "--python", python, "--resolution", resolution, "-r", sdist / "pyproject.toml", *chosen),
        ("pip", "install", "--python", python, "--no-deps", wheel),
    )
    for command in commands:
        ran = run(UV, "--quiet", *command, cwd=sdist.parent)
        assert ran.returncode == 0, ran.stderr
    return python.parent


@pytest.fixture(scope="module", params=[LOWEST, NEWEST])
def programs(
    request: pytest.FixtureRequest, sdist: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return install(tmp_path_factory.mktemp(request.param) / "venv", request.param, sdist, wheel)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with modules of the same names as the suite's and of a library's."""
    for name in ("model/__init__.py", "conformance.py", "msgspec.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise ImportError('this is a module of the project')\n")
    return tmp_path


def test_the_commands_work_beside_modules_of_the_same_names(programs: Path, project: Path) -> None:
    command = programs / "pulsar-conformance"
    said = {
        arguments: run(command, *arguments.split(), cwd=project)
        for arguments in ("--version", "rules --json", "explore --variant repl-second-round-skipped")
    }
    assert {arguments: ran.stderr for arguments, ran in said.items() if ran.returncode != 0} == {}
    assert len(json.loads(said["rules --json"].stdout)) > 90
    assert "REPL-07" in said["explore --variant repl-second-round-skipped"].stdout


def test_pytest_collects_the_machines_beside_modules_of_the_same_names(programs: Path, project: Path) -> None:
    asked = ("--pyargs", "stateful", "--broker", "4.0.8", "--pulsar-rules", "KEY", "--collect-only", "-q")
    ran = run(programs / "pytest", *asked, cwd=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test_key_shared.py::test_no_rule_is_broken_by[keys]" in ran.stdout


@pytest.mark.parametrize("programs", [LOWEST], indirect=True)
def test_a_check_works_with_the_lowest_versions(programs: Path, broker: Broker, project: Path) -> None:
    """Some versions fail only when Hypothesis runs a machine, or a client connects."""
    addresses = f"{broker.addresses.service_url},{broker.addresses.admin_url}"
    asked = ("--broker", addresses, "--rules", "DEDUP-02,DEDUP-03", "--budget", "40s", "--seed", "1")
    ran = run(programs / "pulsar-conformance", "check", *asked, "--report", project / "report", cwd=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
