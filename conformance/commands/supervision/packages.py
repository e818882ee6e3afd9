"""The optional packages that some commands need."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.harness_error import HarnessError


def demand_installed(names: Sequence[str], command: str, *, extra: str = "spark") -> None:
    """Check that the packages of an extra are installed.

    Raises:
        HarnessError: one is missing; the sentence has the command that installs it.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise HarnessError(f"{command} needs {', '.join(missing)}: {_remedy(extra)}")


def _remedy(extra: str) -> str:
    if (Path(__file__).parents[3] / "Makefile").exists():
        return f"run `make setup-{extra}`"
    return f"run `pip install 'pulsar-conformance[{extra}]'` in the environment {sys.prefix}"
