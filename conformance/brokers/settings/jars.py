"""The classes in the jars of a distribution, as bytes."""

from __future__ import annotations

import re
import zipfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_APACHE: Final = re.compile(r"pulsar|bookkeeper")
"""A pattern for the names of the jars that are read."""


class Jars:
    """The jars of Pulsar and BookKeeper in the folder ``lib`` of an unpacked distribution."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def read(self, file: str) -> bytes | None:
        """Return a class file, by its path in its jar; None if no jar has it."""
        jar = self._jars.get(file)
        return None if jar is None else jar.read(file)

    def mention(self, beginning: str, text: str) -> bool:
        """Whether a class whose path has this prefix has a text among its constants, for example an option."""
        files = [file for file in self._jars if file.startswith(beginning)]
        return any(text.encode() in (self.read(file) or b"") for file in files)

    @cached_property
    def _jars(self) -> dict[str, zipfile.ZipFile]:
        paths = [path for path in sorted((self._folder / "lib").glob("*.jar")) if _APACHE.search(path.name)]
        jars = [self._open.enter_context(zipfile.ZipFile(path)) for path in paths]
        return {name: jar for jar in jars for name in jar.namelist() if name.endswith(".class")}
