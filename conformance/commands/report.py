"""``report``: writes the reports of a check again from its events, for example after a kill."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from conformance.commands import check
from conformance.commands.supervision.folders import bugs_kept_in


def report(folder: Path, *, out: Console, verbose: bool = False) -> int:
    """Print the table and write the reports of the check whose events are in a folder; returns its exit status.

    Raises:
        HarnessError: there are no events of a check, or the reports cannot be written.
    """
    folder = folder.absolute()
    with bugs_kept_in(folder):
        data = check.read(folder)
        check.report(data, folder, out, verbose=verbose)
    return data.verdicts.exit_status
