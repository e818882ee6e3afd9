"""Where commands write: the consoles, and files that the user named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

NAME = "pulsar-conformance"
"""The command's name."""

STDOUT = "-"
"""What stands for standard output where a file may be named."""


def consoles() -> tuple[Console, Console]:
    """Standard output and standard error."""
    from rich.console import Console

    return Console(highlight=False), Console(stderr=True, highlight=False)


def write(content: bytes, where: Path) -> None:
    """Write to a file, or to standard output."""
    with click.open_file(str(where), "wb") as file:
        file.write(content)
