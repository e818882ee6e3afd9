"""Unpacks the archive of a release, once, into the suite's cache.

No entry may leave the folder it is unpacked into, and there may be files and folders only: releases have no links, and
without links there is none that points out. It does not look at what the archive contains beyond that.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from conformance.brokers.installation.cache import sole_maker
from conformance.harness_error import HarnessError

_CHUNK_BYTES = 1 << 20


class _Unsafe(Exception):
    """An entry that is not unpacked; ``str()`` of it says which and why."""


def unpacked(archive: Path, folder: Path) -> Path:
    """Return ``folder`` with the contents of a gzipped tar, whose single top folder is left away.

    Unpacks on the first call only; ``folder`` appears complete or not at all, also when several processes ask at once.

    Raises:
        HarnessError: an entry would leave the folder or is a device, or the archive is damaged.
    """
    with sole_maker(folder) as workshop:
        if not folder.exists():
            _extract(archive, workshop)
            _top_folder(archive, workshop).replace(folder)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    try:
        with gzip.open(archive) as content, tarfile.open(fileobj=content, mode="r:") as tar:
            # Newer Pythons than that of Debian 12 filter entries; this filter accepts them, as each is checked here.
            tar.extraction_filter = lambda entry, _: entry
            tar.extractall(folder, members=map(_safe, tar))
            while content.read(_CHUNK_BYTES):  # gzip compares its own checksum only when it is read to its end
                pass
    except _Unsafe as reason:
        raise HarnessError(f"The archive {archive} is refused: {reason}.") from None
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise HarnessError(f"{archive} cannot be unpacked: {error}.") from error


def _safe(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry with the current user as its owner, and with safe permissions."""
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts:
        raise _Unsafe(f"its entry {entry.name!r} would leave the folder it is unpacked into")
    if not (entry.isreg() or entry.isdir()):
        raise _Unsafe(f"its entry {entry.name!r} is neither a file nor a folder")
    entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
    entry.mode = 0o755 if entry.isdir() else entry.mode & 0o755 | 0o600
    return entry


def _top_folder(archive: Path, folder: Path) -> Path:
    tops = list(folder.iterdir())
    if len(tops) != 1 or not tops[0].is_dir():
        raise HarnessError(f"{archive} is not a release: it should have one folder at its top.")
    return tops[0]
