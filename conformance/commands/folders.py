"""Where a command puts its report, and what is left there of a bug of the suite itself."""

from __future__ import annotations

import contextlib
import re
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import click

from conformance.trouble import Trouble

DEFAULT = Path("reports")
"""Below which folder reports go when no other is asked for."""


def report_folder(asked: Path | None, *name: str) -> Path:
    """The folder for a report, made if it is missing; ``name`` is put together for one that nobody named.

    Trouble when it cannot be made or written to.
    """
    folder = asked or DEFAULT / "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-") for part in name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").touch()
    except OSError as error:
        raise Trouble(f"the report cannot be written to {folder}: {error.strerror}") from error
    return folder.absolute()


@contextlib.contextmanager
def bugs_kept_in(folder: Path | None) -> Iterator[None]:
    """Turn an exception that nobody expected into Trouble, and keep its traceback in ``folder``, or a temporary one."""
    try:
        yield
    except (Trouble, click.ClickException, click.Abort, BrokenPipeError):
        raise
    except Exception as error:
        kept = (folder or Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))) / "traceback.txt"
        kept.write_text(traceback.format_exc())
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Trouble(f"the suite itself failed ({what}); the traceback of this bug is in {kept}") from error
