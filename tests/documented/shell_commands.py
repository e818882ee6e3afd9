"""Finds every shell command in README and docs: in indented blocks, and in fenced ones."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_PROGRAM = (
    r"(?:[A-Z_]+=\S+ )*(?:venv/bin/|\.venv/bin/)?"
    r"(?:pulsar-conformance|make|pytest|python3?|pip|pipx|uv|git|docker|spark-submit|\.) "
)
_COMMAND = re.compile(rf"(?: {{4}}|(?=\S))(?:\$ )?(?P<text>{_PROGRAM}\S.*)")
_FENCE = re.compile(r"```(?P<language>\w*)")
_SHELL = {"sh", "bash", "shell", "console"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as it is written, without its comment, and where."""

    text: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def commands() -> list[Command]:
    """All of them, in the order of the pages and of their lines."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "README.md", "docs/*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [command for name in listed.stdout.splitlines() for command in _in_page(name)]


def _in_page(name: str) -> Iterator[Command]:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    language: str | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if fence := _FENCE.match(line):
            language = None if language is not None else fence["language"]
            continue
        if language is not None and language not in _SHELL:
            continue  # output of a program, data, or another language
        if language is None and not line.startswith("    "):
            continue
        if not (found := _COMMAND.fullmatch(line)):
            continue
        text, first = found["text"], number
        while text.endswith("\\") and number < len(lines):
            text = text[:-1] + lines[number].strip()
            number += 1
        yield Command(text=_without_comment(text), file=name, line=first)


def _without_comment(text: str) -> str:
    return re.sub(r"\s+#\s.*$", "", text).strip()
