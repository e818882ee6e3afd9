"""What only some commands need of what can be installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from conformance.trouble import Trouble


def demand_installed(names: Sequence[str], command: str) -> None:
    """Say what to run where a package is not there.

    Raises:
        Trouble: one of them cannot be found.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise Trouble(f"{command} needs {', '.join(missing)}: run `make setup-spark`")
