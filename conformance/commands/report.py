"""``report``: writes the reports of a check again from its events, or the issue to file for a find."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from conformance.commands import check
from conformance.commands.supervision.folders import bugs_kept_in
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.known import HISTORIES
from conformance.report.issue import issue_of_deviation, issue_of_violation
from model.deviations import DEVIATIONS, current_name


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


def issue(find: str) -> str:
    """The issue of a find: of a known deviation, by its name, or of the violation in the file of a history."""
    suite = version("pulsar-conformance")
    if (deviation := DEVIATIONS.get(current_name(find))) is not None:
        stored = document.read(HISTORIES / f"{deviation.name}.json") if deviation.has_history else None
        return issue_of_deviation(deviation, stored, suite)
    file = Path(find)
    if not file.exists():
        raise HarnessError(f"{find} is neither a known deviation (see pulsar-conformance known) nor a history")
    history = document.read(file)
    if history.violation is None:
        raise HarnessError(f"{find} has no violation, so there is nothing to file")
    if (named := DEVIATIONS.get(current_name(history.violation.deviation or ""))) is not None:
        return issue_of_deviation(named, history, suite)
    return issue_of_violation(history, history.violation, suite)
