"""Each installation that the README names, typed in a copy of the clone, with a separate home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented.shell_commands import ROOT, commands

BIN = Path(sys.executable).parent
WAYS = {
    "pipx install .": ".local/bin/pulsar-conformance",
    "uv tool install .": ".local/bin/pulsar-conformance",
    "python3 -m venv venv && venv/bin/pip install .": "clone/venv/bin/pulsar-conformance",
}
"""Each command, and where in the home that the clone is in it puts the suite's command."""


def typed(text: str, home: Path) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "XDG", "PIPX", "UV"))
    }
    variables = {**kept, "HOME": str(home), "PATH": f"{kept['PATH']}{os.pathsep}{BIN}"}
    return subprocess.run(["bash", "-c", text], cwd=home / "clone", env=variables, capture_output=True, text=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with nothing in it but a clone with what is here."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "clone" / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_the_readme_names_these_installations() -> None:
    named = {command.text for command in commands() if command.file == "README.md"}
    assert set(WAYS) <= named
    assert ". .venv/bin/activate" in named


@pytest.mark.as_typed
@pytest.mark.parametrize("command", WAYS)
def test_the_command_is_at_the_path_in_the_readme(command: str, home: Path) -> None:
    installed = typed(command, home)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    program = home / WAYS[command]
    for arguments, said in (("--version", "version 0."), ("rules", "KEY-01"), ("defects", "check-removed")):
        ran = typed(f"{program} {arguments}", home)
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stdout
    asked = "check --broker 4.0.8 --rules DEDUP-02,DEDUP-03 --budget 2m --seed 1"
    cache = Path("~/.cache").expanduser() / "pulsar-conformance"
    checked = typed(
        f"PULSAR_CONFORMANCE_CACHE={os.environ.get('PULSAR_CONFORMANCE_CACHE', cache)} {program} {asked}", home
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.as_typed
def test_the_environment_of_the_clone_is_activated_as_documented() -> None:
    text = ". .venv/bin/activate && command -v pulsar-conformance && pulsar-conformance --version"
    ran = subprocess.run(["bash", "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == str(ROOT / ".venv" / "bin" / "pulsar-conformance")
