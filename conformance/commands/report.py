"""``report``: writes the reports of a check again from its events, or the issue to file for a find."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from conformance.commands import check
from conformance.commands.supervision.folders import bugs_kept_in
from conformance.files import write_whole
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History
from conformance.known import HISTORIES
from conformance.report import github
from conformance.report.issue import find_of, issue_of_deviation, issue_of_violation
from conformance.report.reproducer.program import programs
from model.deviation import Deviation
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
    github.publish(data)
    return data.verdicts.exit_status


def issue(find: str, reproducer: Path | None = None) -> str:
    """The issue of a find: of a known deviation, by its name, or of the violation in the file of a history.

    ``reproducer``: the folder that gets programs which reproduce it without the suite.

    Raises:
        HarnessError: there is nothing to file, or no program can reproduce it.
    """
    suite = version("pulsar-conformance")
    deviation, history = _found(find)
    files = () if reproducer is None else _write_programs(find, deviation, history, reproducer)
    if deviation is not None:
        return issue_of_deviation(deviation, history, suite, files)
    assert history is not None
    assert history.violation is not None
    return issue_of_violation(history, history.violation, suite, files)


def _found(find: str) -> tuple[Deviation | None, History | None]:
    """A known deviation with the history that the suite has of it, or the history in a file and what names it."""
    if (deviation := DEVIATIONS.get(current_name(find))) is not None:
        return deviation, document.read(HISTORIES / f"{deviation.name}.json") if deviation.has_history else None
    file = Path(find)
    if not file.exists():
        raise HarnessError(f"{find} is neither a known deviation (see pulsar-conformance known) nor a history")
    history = document.read(file)
    if history.violation is None:
        raise HarnessError(f"{find} has no violation, so there is nothing to file")
    return DEVIATIONS.get(current_name(history.violation.deviation or "")), history


def _write_programs(find: str, deviation: Deviation | None, history: History | None, folder: Path) -> tuple[str, ...]:
    """Write the programs that reproduce a find; returns the names of their files."""
    if history is None:
        raise HarnessError(f"the suite has no history of {find}, so no program reproduces it")
    written = programs(find_of(deviation, history, Path(find).stem))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for program in written:
            write_whole(folder / program.file, program.text.encode())
    except OSError as error:
        raise HarnessError(f"the reproducer cannot be written to {folder}: {error.strerror}") from error
    return tuple(program.file for program in written)
