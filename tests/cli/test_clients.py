"""Another release of pulsar-client: an environment that differs only in it, and is created once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.commands.supervision.engine import Engine
from conformance.drivers.environment import BORROWED, python_with_client
from conformance.harness_error import HarnessError

OTHER = "3.12.0"
ASK = """
import json, hypothesis, pulsar
from importlib import metadata
print(json.dumps([metadata.version("pulsar-client"), pulsar.__file__, hypothesis.__file__]))
"""


def test_the_environment_has_that_client_and_everything_else_from_here(tmp_path: Path) -> None:
    import hypothesis

    said: list[str] = []
    python = python_with_client(OTHER, said.append)
    asked = subprocess.run([str(python), "-c", ASK], capture_output=True, text=True, check=True, cwd=tmp_path)
    version, client, borrowed = json.loads(asked.stdout)
    assert version == OTHER
    assert Path(client).is_relative_to(python.parents[1])
    assert borrowed == hypothesis.__file__
    said.clear()
    assert python_with_client(OTHER, said.append) == python
    assert said == [], "it was made again"


def test_packages_are_borrowed_from_the_present_location_of_the_suite() -> None:
    python = python_with_client(OTHER, lambda _: None)
    (borrowed,) = python.parents[1].glob(f"lib/python*/site-packages/{BORROWED}")
    before = borrowed.read_text(encoding="utf-8")
    borrowed.write_text("import site; site.addsitedir('/nowhere')\n", encoding="utf-8")
    python_with_client(OTHER, lambda _: None)
    assert borrowed.read_text(encoding="utf-8") == before


def test_a_release_that_cannot_be_installed_is_a_harness_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    with pytest.raises(HarnessError, match=r"^pulsar-client==0\.0\.1 is not available: No matching distribution"):
        python_with_client("0.0.1", lambda _: None)
    assert [path.name for path in (tmp_path / "clients").iterdir() if path.is_dir()] == []


def test_the_engine_runs_with_the_python_of_the_environment() -> None:
    engine = Engine(command=("python", "-m", "pytest"))
    assert engine.run_by(Path("/other/bin/python")).command == ("/other/bin/python", "-m", "pytest")
