"""The walk of one operation from choice to verdict, as ARCHITECTURE.md has it: a table of files and definitions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from tests.documented.shell_commands import ROOT

HEADING = "## One operation, from choice to verdict\n"
ROW = re.compile(r"^\| `(?P<file>[\w/]+\.py)` \| `(?P<definition>[\w.]+)` \| (?P<text>.*) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stop:
    """A row of the table: where the walk comes through, and the names that its description quotes."""

    file: Path
    definition: str
    quoted: tuple[str, ...]

    @property
    def node(self) -> ast.AST | None:
        """What the file defines under that name, if it does."""
        node: ast.AST | None = ast.parse(self.file.read_text("utf-8"))
        for name in self.definition.split("."):
            inside = ast.iter_child_nodes(node) if node is not None else ()
            node = next((one for one in inside if getattr(one, "name", None) == name), None)
        return node

    @property
    def missing(self) -> list[str]:
        """The quoted names that the definition does not use."""
        if self.node is None:
            return [self.definition]
        used = {
            name
            for node in ast.walk(self.node)
            for name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "arg", None))
        }
        return [name for name in self.quoted if name not in used]


def stops(page: str) -> list[Stop]:
    """The stops of the walk on a page."""
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    return [
        Stop(ROOT / row["file"], row["definition"], tuple(re.findall(r"`(\w+)`", row["text"])))
        for row in ROW.finditer(section)
    ]


def walk() -> list[Stop]:
    """The stops of the walk in ARCHITECTURE.md."""
    return stops((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
