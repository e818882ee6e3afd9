"""Runs the command line with the scripted engine, in a process of its own, as a user does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.waits import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a finished command left."""

    status: int
    out: str
    err: str
    seconds: float


def start(
    scenario: str, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a command in a folder, with an engine that follows the scenario."""
    repository = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.launch", scenario, *arguments],
        cwd=folder,
        env={
            **os.environ,
            **(environment or {}),
            "PYTHONPATH": str(repository),
            "COLUMNS": "80",
            "TMPDIR": str(folder),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    scenario: str,
    *arguments: str,
    folder: Path,
    deadline_s: float = 180.0,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run a command to its end."""
    began = time.monotonic()
    return ended(
        start(scenario, *arguments, folder=folder, environment=environment), began=began, deadline_s=deadline_s
    )


def ended(command: subprocess.Popen[str], *, began: float, deadline_s: float = 180.0) -> Ran:
    """What a started command left, when it has ended."""
    try:
        out, err = command.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        command.kill()
        raise
    out = "\n".join(line.rstrip() for line in out.splitlines())
    return Ran(status=command.returncode, out=out, err=err, seconds=time.monotonic() - began)


def engine_pids(report: Path) -> list[int]:
    """The processes of the scripted engine, once it is up."""
    eventually(lambda: (report / "pids").exists() and (report / "pids").read_text().endswith("\n"))
    return [int(pid) for pid in (report / "pids").read_text().split()]


def are_gone(pids: list[int]) -> bool:
    """Whether none of the processes is there any more (a zombie is not there)."""
    return not any(_is_running(pid) for pid in pids)


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def interrupt(command: subprocess.Popen[str]) -> None:
    """Press Ctrl-C."""
    command.send_signal(signal.SIGINT)
