"""Reads files that a user names: no directory, pipe, endless device or huge file, and none that never answers.

A file is opened without waiting, and what was opened is examined, not what its name pointed to before. A file may be
regular and never answer (a trace of the kernel, a network file system that hangs), so a read has a deadline.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from conformance.harness_error import HarnessError

AT_MOST_BYTES: Final = 2**28
"""The largest file that it reads by default."""

SECRET_AT_MOST_BYTES: Final = 2**20
"""The largest file with a token, credentials or a key; a fifth of the largest frame that could carry one."""

CERTIFICATES_AT_MOST_BYTES: Final = 2**24
"""The largest file of certificates; a system's bundle of certificate authorities has 250 KiB."""

DEADLINE_S: Final = 10.0


def is_file(path: Path) -> bool:
    """Whether there is a file; False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def content(path: Path, what: str = "", *, at_most_bytes: int = AT_MOST_BYTES, deadline_s: float = DEADLINE_S) -> bytes:
    """The content of a file; ``what`` it is, for the sentence of the HarnessError."""
    named = f"{what} {path}".lstrip()
    read: list[bytes | HarnessError] = []

    def reading() -> None:
        try:
            with opened(path, what) as file:
                read.append(file.read(at_most_bytes + 1))
        except OSError as error:
            read.append(HarnessError(f"cannot read {named}: {error.strerror}"))
        except HarnessError as error:
            read.append(error)

    reader = threading.Thread(target=reading, name="read", daemon=True)
    reader.start()
    reader.join(deadline_s)
    if not read:
        raise HarnessError(f"cannot read {named}: it was not read within {deadline_s:g} s")
    (found,) = read
    if isinstance(found, HarnessError):
        raise found
    if len(found) > at_most_bytes:
        raise HarnessError(f"cannot read {named}: it has more than {at_most_bytes} bytes")
    return found


def opened(path: Path, what: str = "") -> BinaryIO:
    """A regular file, opened for reading. Raises HarnessError."""
    named = f"{what} {path}".lstrip()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise HarnessError(f"cannot read {named}: {error.strerror}") from error
    except ValueError as error:
        raise HarnessError(f"cannot read {str(path)!r}: {error}") from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        raise HarnessError(f"cannot read {named}: it is {'a directory' if stat.S_ISDIR(kind) else 'no regular file'}")
    return os.fdopen(descriptor, "rb")


def lines(path: Path, what: str = "", *, line_at_most_bytes: int) -> Iterator[bytes]:
    """The lines of a file of any length, with their ends; the last one may have none. Raises HarnessError."""
    try:
        with opened(path, what) as file:
            while line := file.readline(line_at_most_bytes + 1):
                if len(line) > line_at_most_bytes:
                    raise HarnessError(f"cannot read {path}: a line has more than {line_at_most_bytes} bytes")
                yield line
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: until it is complete, an older one stays, also on a full disk."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
