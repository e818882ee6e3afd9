"""``matrix``: checks brokers and clients one after the other, for hours or days, and keeps a small file of each run.

A run whose file is there is not made again, so a campaign that was interrupted goes on where it was. The pages are made
from all files in the folder, also from contributed ones; ``judge`` says whether the journals of a run agree with its
file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from conformance.commands.check import CheckOptions, read
from conformance.commands.comparison.compare import Side, check_side
from conformance.commands.judge import digest
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import as_file_name, bugs_kept_in, unused
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.files import content, write_whole
from conformance.harness_error import HarnessError
from conformance.report import matrix as pages
from conformance.report.console import say
from conformance.report.matrix import MatrixRun
from conformance.report.sentences.lists import count
from conformance.report.verdicts_json import form

INCOMPLETE = 2
"""The exit status if a run could not be made."""


def matrix(
    sides: Sequence[Side],
    asked: CheckOptions,
    engine_of: Mapping[str, Engine],
    folder: Path,
    *,
    out: Console,
    err: Console,
) -> int:
    """Check each side whose file is missing, then write the pages of all files; returns the exit status.

    ``asked``: the options that all have in common. ``folder``: of the files; the reports are in it, too.
    """
    reports = folder / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    failures = []
    for number, side in enumerate(sides, start=1):
        file = folder / f"{_name(side, asked)}.json"
        if file.exists():
            say(err, f"{number} of {len(sides)}: {side.name} is in {file}")
            continue
        say(err, f"{number} of {len(sides)}: {side.name}")
        try:
            run = _run(side, asked, engine_of[side.name], unused(reports / file.stem), err=err)
        except HarnessError as error:
            failures.append(f"{side.name}: {error}")
            continue
        if run is None:
            return INTERRUPTED
        write_whole(file, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
        write_pages(folder)
    runs = write_pages(folder)
    out.print(pages.as_markdown(runs), markup=False, soft_wrap=True)
    for failure in failures:
        say(out, failure, style="yellow")
    say(out, f"{count(len(runs), 'run', 'runs')}: {folder / 'matrix.html'} and matrix.md.")
    return INCOMPLETE if failures else 0


def _name(side: Side, asked: CheckOptions) -> str:
    return f"{as_file_name(side.name)}-{asked.budget_s:g}s-{asked.seed}"


def _run(side: Side, asked: CheckOptions, engine: Engine, folder: Path, *, err: Console) -> MatrixRun | None:
    """Check one side; None if the user interrupted it.

    Raises:
        HarnessError: it cannot be checked; what its machines found is no result if the broker never started.
    """
    with bugs_kept_in(folder):
        if check_side(side, asked, engine, folder, err=err) == INTERRUPTED:
            return None
        data = read(folder)
    if data.verdicts.started is None:
        why = "; ".join(error.sentence for error in data.verdicts.harness_errors)
        raise HarnessError(why or "the broker did not start")
    checked = form(data, folder=folder, when=datetime.now(UTC))
    deviations: Counter[str] = Counter()
    for rule in checked.rules:
        deviations.update(rule.met)
    return MatrixRun(
        name=side.name,
        check=checked,
        settings=data.verdicts.started.settings,
        budget_s=asked.budget_s,
        lanes=asked.lanes,
        deviations=dict(sorted(deviations.items())),
        journals=digest(folder),
    )


def write_pages(folder: Path) -> tuple[MatrixRun, ...]:
    """Write the pages of all files in a folder; returns their runs, in the order of their releases."""
    runs = pages.in_order(_read(file) for file in sorted(folder.glob("*.json")))
    write_whole(folder / "matrix.md", pages.as_markdown(runs).encode())
    write_whole(folder / "matrix.html", pages.as_html(runs, datetime.now(UTC)).encode())
    return runs


def _read(file: Path) -> MatrixRun:
    try:
        return msgspec.json.decode(content(file), type=MatrixRun)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{file} is not a result of a matrix: {error}") from error
