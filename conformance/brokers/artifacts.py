"""Fetches files from Maven Central by their coordinates into the suite's cache, and vouches for their checksums.

jgo knows where Maven Central is and where in it a file lies, so that no address stands here. A file enters the cache
whole and verified or not at all, however many runs ask for it at once, and it is verified again each time it is asked
for. What is in a file (unpacking, starting) is not this module's business.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from jgo.maven import MavenContext
from jgo.util import http
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from conformance.brokers.cache import cache_folder
from conformance.trouble import Trouble

_log = logging.getLogger(__name__)

_CHECKSUMS = ("sha512", "sha256", "sha1")
"""Kinds of checksum that repositories publish, strongest first: names in hashlib, and suffixes of files."""

_COORDINATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ANSWER_DEADLINE_S = 30
_ATTEMPTS = 3
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """Names one file in a Maven repository; as text, ``group:name:version:packaging[:classifier]``."""

    group: str
    name: str
    version: str
    packaging: str = "jar"
    classifier: str | None = None

    def __str__(self) -> str:
        return ":".join(filter(None, (self.group, self.name, self.version, self.packaging, self.classifier)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checksum:
    kind: str
    digest: str


class _NotThere(Exception):
    """The repository answers that it has no such file."""


def artifact(group: str, name: str, version: str, *, packaging: str = "jar", classifier: str | None = None) -> Path:
    """Return the verified local copy of a file of Maven Central, fetched first where the cache has none.

    Waits while another process fetches the same file. A file without any published checksum is used with a warning.

    Raises:
        Trouble: there is no such file, it cannot be fetched, or it is not the file that was published; then the copy is
            removed, so that the next call fetches it anew.
    """
    wanted = Coordinates(group=group, name=name, version=version, packaging=packaging, classifier=classifier)
    for part in (group, name, version, packaging, classifier or "none"):
        if not _COORDINATE.fullmatch(part):
            raise Trouble(f"{part!r} cannot be part of the coordinates of an artifact.")
    folder = cache_folder("artifacts", group, name, version)
    remote = _remote(wanted)
    copy = folder / str(remote.filename)
    with FileLock(f"{copy}.lock"):
        if not copy.exists():
            _obtain(wanted, copy)
        _verify(wanted, copy)
    return copy


def _remote(wanted: Coordinates, suffix: str = "") -> Any:
    """Return jgo's idea of the file, or of a file beside it that is named with a suffix more."""
    component = MavenContext(timeout=_ANSWER_DEADLINE_S).project(wanted.group, wanted.name).at_version(wanted.version)
    return component.artifact(classifier=wanted.classifier or "", packaging=wanted.packaging + suffix)


def _obtain(wanted: Coordinates, copy: Path) -> None:
    """Put the file and the checksum published for it into the cache, each complete from the moment it is there."""
    with tempfile.TemporaryDirectory(dir=copy.parent, prefix="partial-") as partial:
        staged = Path(partial, copy.name)
        checksum = _published_checksum(wanted, staged.parent)
        if not _reuse_of_maven(wanted, staged, checksum):
            try:
                _download(wanted, "", staged)
            except _NotThere:
                raise Trouble(f"Maven Central has no {wanted}.") from None
        if checksum is not None:
            staged.with_name("checksum").replace(_checksum_file(copy, checksum.kind))
        staged.replace(copy)


def _published_checksum(wanted: Coordinates, folder: Path) -> _Checksum | None:
    """Return the strongest checksum that the repository has for the file, and leave it in ``folder/checksum``."""
    for kind in _CHECKSUMS:
        file = folder / "checksum"
        try:
            _download(wanted, f".{kind}", file)
        except _NotThere:
            continue
        return _read_checksum(file, kind)
    return None


def _checksum_file(copy: Path, kind: str) -> Path:
    return copy.with_name(f"{copy.name}.{kind}")


def _read_checksum(file: Path, kind: str) -> _Checksum:
    """Read a published checksum: the digest in hexadecimal, with or without a file name after it."""
    words = file.read_text("ascii", errors="replace").split()
    length = hashlib.new(kind).digest_size * 2
    if not words or not re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", words[0]):
        raise Trouble(f"What was published as {kind} checksum of {file.name} is not one.")
    return _Checksum(kind=kind, digest=words[0].lower())


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, kind).hexdigest()


def _verify(wanted: Coordinates, copy: Path) -> None:
    """Compare the cached file with its checksum; remove both when they differ."""
    for kind in _CHECKSUMS:
        file = _checksum_file(copy, kind)
        if not file.exists():
            continue
        expected = _read_checksum(file, kind)
        actual = _digest(copy, kind)
        if actual != expected.digest:
            copy.unlink()
            file.unlink()
            raise Trouble(
                f"{copy} is not the published {wanted}: its {kind} checksum is {actual} instead of {expected.digest}. "
                "The file was removed; try again."
            )
        return
    _log.warning("Maven Central publishes no checksum for %s: the file is used unverified.", wanted)


def _reuse_of_maven(wanted: Coordinates, staged: Path, checksum: _Checksum | None) -> bool:
    """Copy the file from the local repository of Maven, if that has it and it is the published one."""
    local: Path = _remote(wanted).cached_path
    if checksum is None or not local.is_file() or _digest(local, checksum.kind) != checksum.digest:
        return False
    shutil.copyfile(local, staged)
    return True


def _download(wanted: Coordinates, suffix: str, destination: Path) -> None:
    """Fetch the file, or one beside it, and try again a few times when the connection fails half-way."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _download_once(wanted, suffix, destination)
        except OSError as error:  # what `requests` raises is an OSError, and so is a full disk
            if attempt == _ATTEMPTS:
                raise Trouble(f"{wanted}{suffix} cannot be fetched from Maven Central: {error}") from error
            time.sleep(attempt)
        else:
            return


def _download_once(wanted: Coordinates, suffix: str, destination: Path) -> None:
    remote = _remote(wanted, suffix)
    folder = remote.component.path_prefix.as_posix()
    address = f"{remote.context.remote_repos['central']}/{folder}/{remote.filename}"
    with http.get(address, stream=True, timeout=_ANSWER_DEADLINE_S) as response, destination.open("wb") as content:
        if response.status_code == 404:
            raise _NotThere
        response.raise_for_status()
        size_bytes = int(response.headers.get("content-length", 0))
        with _progress(shown=not suffix) as bar:
            task = bar.add_task(remote.filename, total=size_bytes or None)
            _copy(response, content.write, lambda count: bar.advance(task, count))


def _copy(response: Any, write: Callable[[bytes], int], advance: Callable[[int], None]) -> None:
    for chunk in response.iter_content(chunk_size=_CHUNK_BYTES):
        write(chunk)
        advance(len(chunk))


def _progress(*, shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not shown,
    )
