"""Addresses of files: what is local, and how the ends of other files are read. It needs neither Spark nor Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

import pyarrow as pa

A_LINK: Final = -1
"""The size of a symbolic link, which is not followed: what it names may be in the history already."""


class Unreadable(Exception):
    """A file cannot be read; its message is the reason in one line."""


class Storage(Protocol):
    """Where histories are."""

    def listed(self, address: str) -> Iterator[tuple[str, int]]:
        """The files below an address with their sizes in bytes, without hidden ones, which are being written.

        Raises:
            HarnessError: it cannot be listed.
        """

    def end(self, address: str, size_bytes: int, last_bytes: int) -> pa.Buffer:
        """The last bytes of a file that is not local, or the whole of a smaller one; from any thread.

        Raises:
            Unreadable: it cannot be read.
        """


def is_local(address: str) -> bool:
    """Whether a file is local; on a Spark cluster each machine has it."""
    return address.startswith("file:")


def local_path(address: str) -> str:
    """The path of a local file; Hadoop writes its address with one slash or three."""
    return re.sub(r"^file:/*", "/", address)
