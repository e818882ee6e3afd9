"""Reads small files that a user names, but no directory, endless device or huge file."""

from __future__ import annotations

from pathlib import Path

from conformance.harness_error import HarnessError

AT_MOST_BYTES = 2**28
"""The largest file that it reads."""


def content(path: Path) -> bytes:
    """The content of a file. Raises HarnessError."""
    try:
        if path.exists() and not path.is_file():
            raise HarnessError(f"cannot read {path}: it is {'a directory' if path.is_dir() else 'no regular file'}")
        if (size_bytes := path.stat().st_size) > AT_MOST_BYTES:
            raise HarnessError(f"cannot read {path}: it has {size_bytes} bytes, more than {AT_MOST_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise HarnessError(f"cannot read {str(path)!r}: {error}") from error
