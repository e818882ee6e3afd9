"""The output of commands: consoles and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

NAME = "pulsar-conformance"
STDOUT = "-"
"""The file name that means standard output."""


def consoles() -> tuple[Console, Console]:
    """Standard output and standard error."""
    from conformance.report.console import SafeConsole

    return SafeConsole(highlight=False), SafeConsole(stderr=True, highlight=False)


def write(content: bytes, where: Path) -> None:
    """Write to a file, or to standard output."""
    with click.open_file(str(where), "wb") as file:
        file.write(content)
