"""What depends only on the source of ``model`` is computed once for each source, and remembered in the user's cache.

``XDG_CACHE_HOME`` says where that is. A clean checkout elsewhere computes everything once.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import platformdirs

from conformance.files import write_whole

T = TypeVar("T")

MODEL: Final = Path(__file__).parents[2] / "model"
KEPT: Final = 10
"""How many sources are remembered, the latest ones."""


def remembered(what: str, kind: type[T], compute: Callable[[], T], *, also: Iterable[Path] = ()) -> T:
    """The value of ``compute``, which depends only on the model and on the files in ``also``."""
    path = _folder() / f"{what}-{digest(also)[:12]}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        value = compute()
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # it is only remembered; another process may write the same
            write_whole(path, msgspec.json.encode(value))
        return value


@cache
def _folder() -> Path:
    """The folder of the present source. Those of sources that were not used lately are removed."""
    all_sources = platformdirs.user_cache_path("pulsar-conformance") / "explorations"
    folder = all_sources / digest(MODEL.rglob("*.py"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for former in sorted(all_sources.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(former, ignore_errors=True)
    return folder


def digest(files: Iterable[Path]) -> str:
    """A digest of the names and the contents of files, and of the version of Python."""
    digested = hashlib.sha256(sys.version.encode())
    for path in sorted(files):
        content = path.read_bytes()
        digested.update(f"{path.relative_to(MODEL.parent)} {len(content)} ".encode() + content)
    return digested.hexdigest()
