"""What only some commands need of what can be installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.harness_error import HarnessError


def demand_installed(names: Sequence[str], command: str, *, extra: str = "spark") -> None:
    """Say what to run where a package of an extra is not there.

    Raises:
        HarnessError: one of them cannot be found.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise HarnessError(f"{command} needs {', '.join(missing)}: {_remedy(extra)}")


def _remedy(extra: str) -> str:
    if (Path(__file__).parents[3] / "Makefile").exists():
        return f"run `make setup-{extra}`"
    return f"run `pip install 'pulsar-conformance[{extra}]'` in the environment {sys.prefix}"
