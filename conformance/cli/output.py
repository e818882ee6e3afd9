"""Where commands write: the consoles, and files that the user named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from conformance.trouble import Trouble

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


def demand_folder_of(path: Path) -> None:
    """Trouble now rather than at the end of a long run."""
    if not path.parent.is_dir():
        raise Trouble(f"{path} cannot be written, because there is no folder {path.parent}")


def write(content: bytes, where: str) -> None:
    """Write to a file, or to standard output."""
    with click.open_file(where, "wb") as file:
        file.write(content)
