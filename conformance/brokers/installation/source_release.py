"""The configuration files that a release ships, read out of its source release without downloading the whole of it.

A source release has up to 700 MB, of which some 50 KB are wanted: it is a ZIP archive, and the repository answers
requests for parts of a file. So the archive's own checksum cannot be compared; each file is compared with the one that
the archive's directory has for it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from conformance.brokers.installation.artifacts import Coordinates, NotPublished, address_of
from conformance.brokers.installation.https import session, why
from conformance.harness_error import HarnessError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_ANSWER_DEADLINE_S: Final = 30
_READ_AHEAD_BYTES: Final = 1 << 16


def configuration_files(version: str) -> Mapping[str, bytes]:
    """The files of a release's folder ``conf``, by name; none where no source release is published.

    Raises:
        HarnessError: it cannot be read.
    """
    source = Coordinates(
        group="org.apache.pulsar", name="pulsar", version=version, packaging="zip", classifier="source-release"
    )
    try:
        with _Remote(address_of(source)) as remote:
            archive = zipfile.ZipFile(io.BufferedReader(remote, _READ_AHEAD_BYTES))
            return {name: archive.read(entry) for entry, name in _in_conf(archive)}
    except NotPublished:
        return {}
    except (_Unreadable, zipfile.BadZipFile) as error:
        raise HarnessError(f"The configuration of Pulsar {version} cannot be read from {source}: {error}.") from error


def _in_conf(archive: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, str]]:
    """The files in the folder ``conf`` below the archive's only top folder."""
    paths = [(entry, PurePosixPath(entry.filename).parts) for entry in archive.infolist() if not entry.is_dir()]
    return [(entry, parts[2]) for entry, parts in paths if len(parts) == 3 and parts[1] == "conf"]


class _Unreadable(Exception):
    """The repository does not give a part of a file. No OSError, which zipfile takes for a damaged archive."""


class _Remote(io.RawIOBase):
    """A file of the repository, of which the parts that are read are requested."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._session = session()
        self._at = 0
        try:
            answer = self._session.head(address, timeout=_ANSWER_DEADLINE_S, allow_redirects=True)
            if answer.status_code == 404:
                raise NotPublished(f"There is no {address}.")
            answer.raise_for_status()
        except OSError as error:
            raise _Unreadable(why(error)) from error
        self._size_bytes = int(answer.headers["content-length"])

    def close(self) -> None:
        self._session.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence] + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        end = min(self._size_bytes, self._at + len(room))
        if self._at >= end:
            return 0
        wanted = {"Range": f"bytes={self._at}-{end - 1}", "Accept-Encoding": "identity"}
        try:
            with self._session.get(self._address, headers=wanted, timeout=_ANSWER_DEADLINE_S, stream=True) as answer:
                answer.raise_for_status()
                if answer.status_code != 206:
                    raise _Unreadable("the repository does not answer requests for a part of a file")
                content = answer.content
        except OSError as error:
            raise _Unreadable(why(error)) from error
        room[: len(content)] = content
        self._at += len(content)
        return len(content)
