"""Lists the files of this machine, without Spark and Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from conformance.harness_error import HarnessError
from conformance.pipeline.files.addresses import A_LINK, is_local, local_path


class LocalStorage:
    """The files of this machine."""

    def listed(self, address: str) -> Iterator[tuple[str, int]]:
        """As :meth:`conformance.pipeline.files.addresses.Storage.listed`."""
        if ":" in address.partition("/")[0] and not is_local(address):
            raise HarnessError(f"{address} is not on this machine, so it needs --engine spark")
        path = Path(local_path(address) if is_local(address) else address).absolute()
        try:
            yield from _below(path) if path.is_dir() else _file(path)
        except OSError as error:
            raise HarnessError(f"{address} cannot be read: {error.strerror}") from error

    def end(self, address: str, size_bytes: int, last_bytes: int) -> NoReturn:
        """No file is elsewhere."""
        raise AssertionError((address, size_bytes, last_bytes))


def _below(folder: Path) -> Iterator[tuple[str, int]]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
        else:
            yield from _file(entry)


def _file(path: Path) -> Iterator[tuple[str, int]]:
    if path.is_symlink():
        yield f"file:{path}", A_LINK
    elif path.suffix == ".parquet":
        yield f"file:{path}", path.stat().st_size
    else:
        path.stat()  # it exists, or this says why not
