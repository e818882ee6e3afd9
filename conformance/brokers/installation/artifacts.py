"""Fetches files from Maven Central by their coordinates into the suite's cache, and vouches for their checksums.

jgo knows where Maven Central is and where in it a file lies, so that no address stands here. A file enters the cache
whole and verified or not at all, with any number of concurrent runs, and it is verified again on each use.

What asks Maven Central is imported when something is asked: that takes half a second, and most runs have all files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.harness_error import HarnessError

_log = logging.getLogger(__name__)

_CHECKSUMS = ("sha512", "sha256", "sha1")
"""Kinds of checksum that repositories publish, strongest first: names in hashlib, and suffixes of files."""

_LISTED = re.compile(r"<version>\s*([A-Za-z0-9._-]+)\s*</version>")
_COORDINATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ANSWER_DEADLINE_S = 30
_ATTEMPTS = 3
_MENTIONED_BYTES = 1_000_000
"""A smaller file takes no time that needs an explanation."""
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
    file: Path


class NotPublished(HarnessError):
    """Maven Central has no such file."""


class _NotThere(Exception):
    """The repository answers that it has no such file."""


def artifact(group: str, name: str, version: str, *, packaging: str = "jar", classifier: str | None = None) -> Path:
    """Return the verified local copy of a file of Maven Central, fetched first where the cache has none.

    Waits while another process fetches the same file. A file without any published checksum is used with a warning.

    Raises:
        HarnessError: there is no such file, it cannot be fetched, or it is not the file that was published; then the
        copy is
            removed, so that the next call fetches it again.
    """
    wanted = Coordinates(group=group, name=name, version=version, packaging=packaging, classifier=classifier)
    for part in (group, name, version, packaging, classifier or "none"):
        if not _COORDINATE.fullmatch(part):
            raise HarnessError(f"{part!r} cannot be part of the coordinates of an artifact.")
    copy = cache_folder("artifacts", group, name, version) / str(_remote(wanted).filename)
    with sole_maker(copy) as workshop:
        if not copy.exists():
            _obtain(wanted, workshop, copy)
        _verify(wanted, copy)
    return copy


def central_address() -> str:
    """Where Maven Central is."""
    from jgo.maven import MavenContext

    return str(MavenContext().remote_repos["central"])


def address_of(wanted: Coordinates, suffix: str = "") -> str:
    """Where Maven Central has a file, or one beside it that is named with a suffix more."""
    remote = _remote(wanted, suffix)
    return f"{central_address()}/{remote.component.path_prefix.as_posix()}/{remote.filename}"


def is_published(wanted: Coordinates) -> bool:
    """Whether Maven Central has a file. It is asked for the file, because its lists are incomplete.

    Raises:
        HarnessError: it cannot be asked.
    """
    from conformance.brokers.installation.https import session, why

    try:
        with session() as asking:
            answer = asking.head(address_of(wanted), timeout=_ANSWER_DEADLINE_S, allow_redirects=True)
            if answer.status_code != 404:
                answer.raise_for_status()
            return answer.status_code != 404
    except OSError as error:
        raise HarnessError(f"Maven Central cannot be asked for {wanted}: {why(error)}.") from error


def listed_versions(wanted: Coordinates) -> tuple[str, ...]:
    """The versions of an artifact that Maven Central lists: not all that it has.

    Raises:
        HarnessError: it cannot be asked.
    """
    from conformance.brokers.installation.https import session, why

    address = f"{central_address()}/{wanted.group.replace('.', '/')}/{wanted.name}/maven-metadata.xml"
    try:
        with session() as asking:
            answer = asking.get(address, timeout=_ANSWER_DEADLINE_S)
            if answer.status_code == 404:
                return ()
            answer.raise_for_status()
    except OSError as error:
        raise HarnessError(f"Maven Central cannot be asked for versions of {wanted.name}: {why(error)}.") from error
    return tuple(_LISTED.findall(answer.text))


def _remote(wanted: Coordinates, suffix: str = "") -> Any:
    """Return jgo's idea of the file, or of a file beside it that is named with a suffix more."""
    from jgo.maven import MavenContext

    component = MavenContext(timeout=_ANSWER_DEADLINE_S).project(wanted.group, wanted.name).at_version(wanted.version)
    return component.artifact(classifier=wanted.classifier or "", packaging=wanted.packaging + suffix)


def _obtain(wanted: Coordinates, workshop: Path, copy: Path) -> None:
    """Put the checksum published for the file and then the file into the cache, each in one step."""
    made = workshop / copy.name
    checksum = _fetch_checksum(wanted, made)
    if checksum is None or not _take_from_maven(wanted, checksum, made):
        try:
            _download(wanted, "", made)
        except _NotThere:
            raise NotPublished(f"Maven Central has no {wanted}.") from None
    if checksum is not None:
        checksum.file.replace(copy.with_name(checksum.file.name))
    made.replace(copy)


def _fetch_checksum(wanted: Coordinates, made: Path) -> _Checksum | None:
    """Fetch the strongest checksum that is published for the file, into a file beside it."""
    for kind in _CHECKSUMS:
        with contextlib.suppress(_NotThere):
            _download(wanted, f".{kind}", made.with_name(f"{made.name}.{kind}"))
            return _checksum_beside(made)
    return None


def _checksum_beside(file: Path) -> _Checksum | None:
    """Return the checksum in the cache for a file: its digest in hexadecimal, with or without a name after it.

    Raises:
        HarnessError: something else was published as its checksum.
    """
    for kind in _CHECKSUMS:
        beside = file.with_name(f"{file.name}.{kind}")
        if beside.exists():
            digest = beside.read_text("ascii", errors="replace").partition(" ")[0].strip().lower()
            if not re.fullmatch(rf"[0-9a-f]{{{hashlib.new(kind).digest_size * 2}}}", digest):
                beside.unlink()
                raise HarnessError(f"What was published as the {kind} checksum of {file.name} is none.")
            return _Checksum(kind=kind, digest=digest, file=beside)
    return None


def checksum_of(copy: Path) -> str | None:
    """Return the kind and the digest of the checksum that was published for a file of the cache, if there is one."""
    checksum = _checksum_beside(copy)
    return None if checksum is None else f"{checksum.kind} {checksum.digest}"


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, kind).hexdigest()


def _verify(wanted: Coordinates, copy: Path) -> None:
    """Compare the cached file with its checksum; remove both when they differ."""
    checksum = _checksum_beside(copy)
    if checksum is None:
        _log.warning("Maven Central publishes no checksum for %s: the file is used unverified.", wanted)
    elif (actual := _digest(copy, checksum.kind)) != checksum.digest:
        copy.unlink()
        checksum.file.unlink()
        raise HarnessError(
            f"{copy} is not the published {wanted}: its {checksum.kind} checksum is {actual} instead of "
            f"{checksum.digest}. The file was removed; try again."
        )


def _take_from_maven(wanted: Coordinates, checksum: _Checksum, made: Path) -> bool:
    """Copy the file from the local repository of Maven, if that has it and it is the published one."""
    local: Path = _remote(wanted).cached_path
    if not local.is_file() or _digest(local, checksum.kind) != checksum.digest:
        return False
    shutil.copyfile(local, made)
    return True


def _download(wanted: Coordinates, suffix: str, destination: Path) -> None:
    """Fetch the file, or one beside it, and try again a few times when the connection fails half-way."""
    from conformance.brokers.installation.https import why

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _download_once(wanted, suffix, destination)
        except OSError as error:  # what `requests` raises is an OSError, and so is a full disk
            if attempt == _ATTEMPTS:
                raise HarnessError(f"{wanted}{suffix} cannot be fetched from Maven Central: {why(error)}.") from error
            time.sleep(attempt)
        else:
            return


def _download_once(wanted: Coordinates, suffix: str, destination: Path) -> None:
    from conformance.brokers.installation.https import session

    address = address_of(wanted, suffix)
    name = address.rpartition("/")[2]
    as_it_is = {"Accept-Encoding": "identity"}  # a gzipped file must not be taken for one gzipped on the way
    with (
        session() as fetching,
        fetching.get(address, stream=True, timeout=_ANSWER_DEADLINE_S, headers=as_it_is) as response,
    ):
        if response.status_code == 404:
            raise _NotThere
        response.raise_for_status()
        size_bytes = int(response.headers.get("content-length", 0))
        err = Console(stderr=True)
        if (
            not suffix and not err.is_terminal and size_bytes >= _MENTIONED_BYTES
        ):  # no bar that moves: a line says what takes long
            err.print(f"Fetching {name}, {size_bytes / 1e6:.0f} MB", soft_wrap=True, highlight=False)
        with destination.open("wb") as content, _progress(err, shown=not suffix and err.is_terminal) as bar:
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
