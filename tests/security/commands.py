"""Runs the command line as a user does, with the engine that it has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.cli.command_line import Ran, ended

REPOSITORY = Path(__file__).parents[2]


def start_for_real(
    *arguments: str, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "conformance", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_for_real(*arguments: str, folder: Path, deadline_s: float = 60.0) -> Ran:
    """Run a command to its end."""
    began = time.monotonic()
    return ended(start_for_real(*arguments, folder=folder), began=began, deadline_s=deadline_s)
