"""How many files and connections the processes of a run may have open at once."""

from __future__ import annotations

import resource
from typing import Final

from conformance.harness_error import HarnessError

NEEDED: Final = 1024
"""A broker alone opens hundreds of jars, and as many connections and ledgers again with eight lanes."""


def demand_open_files(needed: int = NEEDED) -> None:
    """Raise the limit on open files for this process and its children, as far as that is necessary and allowed.

    Raises:
        HarnessError: the system allows too few.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise HarnessError(
            f"too few open files are allowed: {hard}, and a run needs {needed}; raise the limit (ulimit -n {needed})"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
