"""The folder of a command's report, and the traceback there of a bug of the suite."""

from __future__ import annotations

import contextlib
import errno
import itertools
import re
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import click

from conformance.harness_error import HarnessError

DEFAULT = Path("reports")
"""The default folder for reports."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The errors of a full or read-only file system."""

LEFT = ("journal.jsonl", "report.html", "verdicts.json")
"""Files that show, like events, that a folder has a report."""


def report_folder(asked: Path | None, *name: str) -> Path:
    """The folder for a report, created if it is missing; ``name``: the parts of the default name.

    A default name gets a number if the folder has a report already. HarnessError if the folder that was asked for has a
    report, or cannot be written to.
    """
    folder = asked or unused(DEFAULT / "-".join(map(as_file_name, name)))
    if has_report(folder):
        raise HarnessError(f"there is a report in {folder} already; name another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").touch()
    except OSError as error:
        raise HarnessError(f"the report cannot be written to {folder}: {error.strerror}") from error
    return folder.absolute()


def has_report(folder: Path) -> bool:
    """Whether a folder has a part of a report."""
    events = folder / "events.jsonl"
    return (events.is_file() and events.stat().st_size > 0) or any((folder / name).exists() for name in LEFT)


def as_file_name(text: str) -> str:
    """A text as a part of a file's name, such as that of a broker."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def unused(folder: Path) -> Path:
    """The folder, or if it has a report the same with the first number after it that has none."""
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([folder], numbered) if not has_report(one))


@contextlib.contextmanager
def bugs_kept_in(folder: Path | None) -> Iterator[None]:
    """Turn an unexpected exception into HarnessError, and store its traceback in ``folder`` or a temporary one."""
    try:
        yield
    except (HarnessError, click.ClickException, click.Abort, BrokenPipeError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise HarnessError(f"cannot write {error.filename or 'the results'}: {error.strerror}") from error
        kept = (folder or Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))) / "traceback.txt"
        kept.write_text(traceback.format_exc())
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise HarnessError(f"the suite itself failed ({what}); the traceback of this bug is in {kept}") from error
