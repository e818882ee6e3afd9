"""The types of output files and folders, which are checked before a long run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from conformance.commands.supervision.folders import has_report


class OutputFile(click.Path):
    """An output file in an existing folder."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        """``allow_dash``: ``-`` is standard output."""
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        if not path.name:
            self.fail(f"{value!r} names no file", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{str(path)!r} cannot be written, because there is no folder {path.parent}", param, ctx)
        if not path.exists() and not os.access(path.parent, os.W_OK):
            self.fail(f"{str(path)!r} cannot be written, because {path.parent} is read-only", param, ctx)
        return path


class OutputFolder(click.Path):
    """An output folder, which is created if it is missing."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        there = next((above for above in (path, *path.absolute().parents) if above.exists()), path)
        if not there.is_dir():
            self.fail(f"{str(path)!r} cannot be created, because {there.name} is a file", param, ctx)
        if not os.access(there, os.W_OK):
            self.fail(f"{str(path)!r} cannot be created, because {there} is read-only", param, ctx)
        return path


class ReportFolder(OutputFolder):
    """A folder for the report of a run, without a report of another run."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if has_report(path):
            self.fail(f"there is a report in {str(path)!r} already; name another folder, or remove it", param, ctx)
        return path
