"""Downloads a file, and compares files with the checksums that are published beside them."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from conformance.harness_error import HarnessError

CHECKSUMS: Final = ("sha512", "sha256", "sha1")
"""Kinds of checksum that repositories publish, strongest first: names in hashlib, and suffixes of files."""

ANSWER_DEADLINE_S: Final = 30
_ATTEMPTS: Final = 3
_MENTIONED_BYTES: Final = 1_000_000
"""A line says that a file of this size is fetched."""
_CHUNK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    kind: str
    digest: str
    file: Path


class NotThere(Exception):
    """The server answers that it has no such file."""


def download(address: str, destination: Path, *, source: str, what: str | None = None, is_shown: bool = True) -> None:
    """Fetch a file, and try again a few times when the connection fails half-way.

    ``source``, ``what``: where from and which file, for errors. ``is_shown``: whether its progress is.

    Raises:
        NotThere: there is no such file.
        HarnessError: it cannot be fetched.
    """
    from conformance.brokers.installation.https import why

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _download_once(address, destination, is_shown=is_shown)
        except OSError as error:  # what `requests` raises is an OSError, and so is a full disk
            if attempt == _ATTEMPTS:
                raise HarnessError(f"{what or address} cannot be fetched from {source}: {why(error)}.") from error
            time.sleep(attempt)
        else:
            return


def _download_once(address: str, destination: Path, *, is_shown: bool) -> None:
    from conformance.brokers.installation.https import session

    name = address.rpartition("/")[2]
    as_it_is = {"Accept-Encoding": "identity"}  # a gzipped file must not be taken for one gzipped on the way
    with (
        session() as fetching,
        fetching.get(address, stream=True, timeout=ANSWER_DEADLINE_S, headers=as_it_is) as response,
    ):
        if response.status_code == 404:
            raise NotThere
        response.raise_for_status()
        size_bytes = int(response.headers.get("content-length", 0))
        err = Console(stderr=True)
        if is_shown and not err.is_terminal and size_bytes >= _MENTIONED_BYTES:  # instead of a bar that moves
            err.print(f"Fetching {name}, {size_bytes / 1e6:.0f} MB", soft_wrap=True, highlight=False)
        with destination.open("wb") as content, _progress(err, shown=is_shown and err.is_terminal) as bar:
            task = bar.add_task(name, total=size_bytes or None)
            for chunk in response.iter_content(chunk_size=_CHUNK_BYTES):
                content.write(chunk)
                bar.advance(task, len(chunk))


def _progress(err: Console, *, shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not shown,
    )


def checksum_beside(file: Path) -> Checksum | None:
    """Return the strongest checksum in a file beside a file: a digest in hexadecimal, with or without a name after it.

    Raises:
        HarnessError: something else is there.
    """
    for kind in CHECKSUMS:
        beside = file.with_name(f"{file.name}.{kind}")
        if beside.exists():
            digest = beside.read_text("ascii", errors="replace").partition(" ")[0].strip().lower()
            if not re.fullmatch(rf"[0-9a-f]{{{hashlib.new(kind).digest_size * 2}}}", digest):
                raise HarnessError(f"What was published as the {kind} checksum of {file.name} is none.")
            return Checksum(kind=kind, digest=digest, file=beside)
    return None


def digest_of(file: Path, kind: str) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, kind).hexdigest()
