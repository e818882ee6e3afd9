"""Tables and paragraphs, cut or wrapped to the width of a terminal.

In a file or a pipe every line keeps its whole length, so that it can be searched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from conformance.report.printable import in_log


class SafeConsole(Console):
    """A console that prints no control character of a text, whatever the text is part of; only its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print, each a text in one style."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text, style, control) if control else Segment(in_log(text), style)


Justify = Literal["left", "right"]

_GAP = 2
"""Spaces between two columns."""


def show_table(
    console: Console,
    rows: Iterable[Sequence[Text]],
    *,
    justify: Sequence[Justify],
    headings: Sequence[str] = (),
    wrapped: bool = False,
) -> None:
    """Print a table; on a terminal its last column is wrapped to the rest of the width, or else cut.

    ``justify``: one for each column.
    """
    table = list(rows)
    if console.is_terminal:
        console.print(_fitted(table, justify, headings, wrapped=wrapped))
        return
    lines = [[Text(heading) for heading in headings], *table] if headings else table
    widths = [max((row[at].cell_len for row in lines), default=0) for at in range(len(justify))]
    for row in lines:
        cells = [_padded(cell, widths[at], justify[at]) for at, cell in enumerate(row[:-1])]
        line = Text((" " * _GAP).join([*cells, row[-1].plain]).rstrip())
        console.print(line, soft_wrap=True)


def say(console: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """Print a paragraph; on a terminal its further lines are indented a little more than its first."""
    first = " " * indent
    lines = [first + text]
    if console.is_terminal:
        lines = textwrap.wrap(text, console.width, initial_indent=first, subsequent_indent=first + "  ")
    console.print(Text("\n".join(lines), style=style), soft_wrap=True)


def _fitted(rows: list[Sequence[Text]], justify: Sequence[Justify], headings: Sequence[str], *, wrapped: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=bool(headings))
    last = len(justify) - 1
    for at, side in enumerate(justify):
        heading = headings[at] if headings else ""
        table.add_column(heading, justify=side, no_wrap=at < last, ratio=1 if at == last else None)
    for row in rows:
        if not wrapped:
            row[-1].no_wrap, row[-1].overflow = True, "ellipsis"
        table.add_row(*row)
    return table


def _padded(cell: Text, width: int, side: Justify) -> str:
    return cell.plain.rjust(width) if side == "right" else cell.plain.ljust(width)
