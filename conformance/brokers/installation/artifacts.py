"""Fetches files from Maven Central by their coordinates into the suite's cache, and vouches for their checksums.

jgo knows where Maven Central is and where in it a file lies, so that no address stands here. A file enters the cache
whole and verified or not at all, with any number of concurrent runs, and it is verified again on each use.

What asks Maven Central is imported when something is asked: that takes half a second, and most runs have all files.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.installation.download import (
    ANSWER_DEADLINE_S,
    CHECKSUMS,
    Checksum,
    NotThere,
    checksum_beside,
    digest_of,
    download,
)
from conformance.harness_error import HarnessError

_log = logging.getLogger(__name__)

_LISTED = re.compile(r"<version>\s*([A-Za-z0-9._-]+)\s*</version>")
_COORDINATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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


class NotPublished(HarnessError):
    """Maven Central has no such file."""


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
            answer = asking.head(address_of(wanted), timeout=ANSWER_DEADLINE_S, allow_redirects=True)
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
            answer = asking.get(address, timeout=ANSWER_DEADLINE_S)
            if answer.status_code == 404:
                return ()
            answer.raise_for_status()
    except OSError as error:
        raise HarnessError(f"Maven Central cannot be asked for versions of {wanted.name}: {why(error)}.") from error
    return tuple(_LISTED.findall(answer.text))


def _remote(wanted: Coordinates, suffix: str = "") -> Any:
    """Return jgo's idea of the file, or of a file beside it that is named with a suffix more."""
    from jgo.maven import MavenContext

    component = MavenContext(timeout=ANSWER_DEADLINE_S).project(wanted.group, wanted.name).at_version(wanted.version)
    return component.artifact(classifier=wanted.classifier or "", packaging=wanted.packaging + suffix)


def _obtain(wanted: Coordinates, workshop: Path, copy: Path) -> None:
    """Put the checksum published for the file and then the file into the cache, each in one step."""
    made = workshop / copy.name
    checksum = _fetch_checksum(wanted, made)
    if checksum is None or not _take_from_maven(wanted, checksum, made):
        try:
            _download(wanted, "", made)
        except NotThere:
            raise NotPublished(f"Maven Central has no {wanted}.") from None
    if checksum is not None:
        checksum.file.replace(copy.with_name(checksum.file.name))
    made.replace(copy)


def _fetch_checksum(wanted: Coordinates, made: Path) -> Checksum | None:
    """Fetch the strongest checksum that is published for the file, into a file beside it."""
    for kind in CHECKSUMS:
        with contextlib.suppress(NotThere):
            _download(wanted, f".{kind}", made.with_name(f"{made.name}.{kind}"))
            return _checksum_beside(made)
    return None


def _checksum_beside(file: Path) -> Checksum | None:
    """Return the checksum in the cache for a file; what is none is removed, so that it is fetched again."""
    try:
        return checksum_beside(file)
    except HarnessError:
        for kind in CHECKSUMS:
            file.with_name(f"{file.name}.{kind}").unlink(missing_ok=True)
        raise


def checksum_of(copy: Path) -> str | None:
    """Return the kind and the digest of the checksum that was published for a file of the cache, if there is one."""
    checksum = _checksum_beside(copy)
    return None if checksum is None else f"{checksum.kind} {checksum.digest}"


def _verify(wanted: Coordinates, copy: Path) -> None:
    """Compare the cached file with its checksum; remove both when they differ."""
    checksum = _checksum_beside(copy)
    if checksum is None:
        _log.warning("Maven Central publishes no checksum for %s: the file is used unverified.", wanted)
    elif (actual := digest_of(copy, checksum.kind)) != checksum.digest:
        copy.unlink()
        checksum.file.unlink()
        raise HarnessError(
            f"{copy} is not the published {wanted}: its {checksum.kind} checksum is {actual} instead of "
            f"{checksum.digest}. The file was removed; try again."
        )


def _take_from_maven(wanted: Coordinates, checksum: Checksum, made: Path) -> bool:
    """Copy the file from the local repository of Maven, if that has it and it is the published one."""
    local: Path = _remote(wanted).cached_path
    if not local.is_file() or digest_of(local, checksum.kind) != checksum.digest:
        return False
    shutil.copyfile(local, made)
    return True


def _download(wanted: Coordinates, suffix: str, destination: Path) -> None:
    """Fetch the file, or one beside it. Raises NotThere if there is none."""
    where, what = address_of(wanted, suffix), f"{wanted}{suffix}"
    download(where, destination, source="Maven Central", what=what, is_shown=not suffix)
