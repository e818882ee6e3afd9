"""No command imports anything from the working directory, which in CI is the pull request of a stranger."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker
from conformance.history.parquet import HistoryWriter
from tests.history.samples import event

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "tests" / "replays" / "histories" / "dedup" / "check-removed.json"
DEADLINE_S = 240.0

SUITE = ("conformance", "model", "pulsar_conformance", "stateful")
"""The suite's own packages."""

CONFIGURATION = {
    "pytest.ini": "[pytest]\naddopts = -p hostile\npythonpath = .\n",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p hostile"\n[tool.setuptools]\npy-modules = []\n',
    "setup.cfg": "[tool:pytest]\naddopts = -p hostile\n[install]\nprefix = /nonexistent\n",
    "tox.ini": "[pytest]\naddopts = -p hostile\n",
    ".coveragerc": "[run]\nplugins = hostile\n",
    "hostile.pth": "import hostile\n",
}
AT_START = ("sitecustomize", "usercustomize")
"""Modules that Python imports before it runs anything."""


@dataclass(frozen=True)
class Project:
    """A stranger's project: each of its modules writes its name into a file when it is imported, and fails."""

    folder: Path
    imported: Path

    def make(self, modules: set[str]) -> None:
        self.folder.mkdir()
        names = {"hostile", "conftest", "test_hostile", "tests/conftest", "stateful/conftest", *modules}
        for name in sorted(names):
            # Half of the names are packages, so that both kinds are tried for some.
            file = self.folder / (f"{name}/__init__.py" if name in {"model", "stateful", "pyspark"} else f"{name}.py")
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text(
                "import os\n"
                f"descriptor = os.open({str(self.imported)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
                f"os.write(descriptor, {(name + chr(10)).encode()!r})\n"
                f"raise ImportError('the project has its own {name}')\n"
            )
        for name, text in CONFIGURATION.items():
            (self.folder / name).write_text(text)

    def run(
        self, *command: str | Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        return subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env=kept | dict(environment or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def names(self) -> set[str]:
        return set(self.imported.read_text().split()) if self.imported.exists() else set()


def libraries() -> set[str]:
    """The modules of the installed packages, except those that Python itself imports at its start."""
    return {name for name in metadata.packages_distributions() if name.isidentifier() and not name.startswith("_")}


@pytest.fixture
def everything(tmp_path: Path) -> Project:
    """A project with a module of each name of a library's, the standard library's, and the suite's."""
    project = Project(tmp_path / "project", tmp_path / "imported")
    project.make({*libraries(), *sys.stdlib_module_names, *SUITE, *AT_START})
    return project


@pytest.fixture
def unrelated(tmp_path: Path) -> Project:
    """A project that Python itself can start in with ``PYTHONPATH=.``: it has no name of the standard library."""
    project = Project(tmp_path / "project", tmp_path / "imported")
    project.make({*libraries(), *SUITE} - {"pulsar_conformance"} - sys.stdlib_module_names)
    return project


def addresses(broker: Broker) -> str:
    return f"{broker.addresses.service_url},{broker.addresses.admin_url}"


def short_history(folder: Path) -> Path:
    with HistoryWriter(folder, "w") as writer:
        writer.record(event())
    return folder


def test_the_project_notices_an_import(everything: Project) -> None:
    """The canary: what these tests look for is seen where it happens."""
    everything.run(sys.executable, "-c", "import msgspec")
    assert {"msgspec"} <= everything.names()


@pytest.mark.parametrize(
    "command",
    [("rules",), ("machines",), ("defects",), ("releases",), ("explore", "--variant", "no-check"), ("check", "-h")],
    ids=" ".join,
)
def test_a_command_without_a_broker_imports_nothing_from_the_working_directory(
    command: tuple[str, ...], everything: Project
) -> None:
    ran = everything.run(BIN / "pulsar-conformance", *command)
    assert ran.returncode == 0, ran.stderr
    assert everything.names() == set()


def test_a_check_imports_nothing_from_the_working_directory(everything: Project, tmp_path: Path) -> None:
    """The engine, the lanes, the applications, the guardian and the broker of a whole check."""
    asked = ("--rules", "DEDUP-02,DEDUP-13", "--budget", "90s", "--lanes", "2", "--seed", "1")
    where = ("--report", tmp_path / "report", "--history", tmp_path / "history")
    ran = everything.run(BIN / "pulsar-conformance", "check", *asked, *where)
    assert everything.names() == set()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {path.name for path in everything.folder.iterdir() if path.name.startswith(".")} == {".coveragerc"}


def test_a_replay_and_a_hunt_import_nothing_from_the_working_directory(everything: Project, tmp_path: Path) -> None:
    command = BIN / "pulsar-conformance"
    ran = everything.run(command, "replay", HISTORY, "--broker", "4.0.8", "--times", "1", "--report", tmp_path / "one")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    ran = everything.run(command, "defects", "--hunt", "check-removed", "--report", tmp_path / "two")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert everything.names() == set()


def test_a_soak_imports_nothing_from_the_working_directory(everything: Project, broker: Broker, tmp_path: Path) -> None:
    asked = ("--broker", addresses(broker), "--minutes", "0.1", "--clients", "2", "--topics", "2")
    ran = everything.run(BIN / "pulsar-conformance", "soak", *asked, "--history", tmp_path / "history")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert everything.names() == set()


def test_verifying_imports_nothing_from_the_working_directory(everything: Project, tmp_path: Path) -> None:
    """Neither do Spark's own workers."""
    history = short_history(tmp_path / "history")
    ran = everything.run(BIN / "pulsar-conformance", "compact", history)
    assert ran.returncode == 0, ran.stderr
    ran = everything.run(BIN / "pulsar-conformance", "verify", "--master", "local[1]", history)
    assert "no verdict" not in ran.stdout
    assert "Rule" in ran.stdout, ran.stdout + ran.stderr
    assert everything.names() == set()


@pytest.mark.parametrize("path", [".", "src", "{folder}", "/nonexistent:.:src"])
def test_packages_of_a_project_in_pythonpath_do_not_take_the_place_of_the_suites(path: str, unrelated: Project) -> None:
    shutil.copytree(unrelated.folder, unrelated.folder / "src")
    environment = {"PYTHONPATH": path.format(folder=unrelated.folder)}
    ran = unrelated.run(BIN / "pulsar-conformance", "rules", environment=environment)
    assert ran.returncode == 0, ran.stderr
    assert unrelated.names() == set()


def test_a_check_ignores_the_packages_of_a_project_in_pythonpath(
    unrelated: Project, broker: Broker, tmp_path: Path
) -> None:
    asked = ("--broker", addresses(broker), "--rules", "DEDUP-02", "--budget", "20s", "--lanes", "2")
    command = (BIN / "pulsar-conformance", "check", *asked, "--report", tmp_path / "report")
    ran = unrelated.run(*command, environment={"PYTHONPATH": "."})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert unrelated.names() == set()


def test_python_m_conformance_works_beside_a_model_and_libraries_of_the_project(unrelated: Project) -> None:
    (unrelated.folder / "conformance.py").unlink()
    for environment in ({}, {"PYTHONPATH": "."}):
        ran = unrelated.run(sys.executable, "-m", "conformance", "rules", environment=environment)
        assert ran.returncode == 0, ran.stderr
    assert unrelated.names() == set()


def test_a_path_elsewhere_is_kept_unless_it_has_a_package_of_the_suites_name(
    unrelated: Project, tmp_path: Path
) -> None:
    for name, module in (("kept", "mine"), ("left_out", "model")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{module}.py").touch()
    program = "import pulsar_conformance as p, os; p.ignore_working_directory(); print(os.environ['PYTHONPATH'])"
    path = os.pathsep.join(str(tmp_path / name) for name in ("kept", "left_out", "project"))
    ran = unrelated.run(sys.executable, "-P", "-c", program, environment={"PYTHONPATH": path})
    assert ran.stdout.strip() == str(tmp_path / "kept"), ran.stderr


@pytest.mark.parametrize("package", ["model", "stateful", "conformance"])
@pytest.mark.parametrize("is_module", [True, False])
def test_pytest_says_in_one_sentence_which_package_takes_the_place_of_the_suites(
    package: str, is_module: bool, tmp_path: Path
) -> None:
    """With ``python -m pytest``, the working directory is in the search path."""
    mine = tmp_path / (f"{package}.py" if is_module else f"{package}/__init__.py")
    mine.parent.mkdir(exist_ok=True)
    mine.touch()
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    project = Project(tmp_path, tmp_path / "imported")
    ran = project.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "stateful")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert ran.stderr.startswith(f"ERROR: pytest imports the package {package} of {mine if is_module else mine.parent}")
    assert "environment of its own (pipx, uv tool)" in ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    ran = project.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
