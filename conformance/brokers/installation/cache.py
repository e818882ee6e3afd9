"""Where the suite keeps what outlives a run (downloads, unpacked releases) and the folders of running brokers.

It only names folders and makes them; what is put into them is the business of the modules that ask.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock

from conformance.harness_error import HarnessError

ENVIRONMENT_VARIABLE = "PULSAR_CONFORMANCE_CACHE"
"""Names another cache folder than the user's own; its value is a path."""


def cache_folder(*parts: str) -> Path:
    """Return the folder ``parts`` below the cache, made if it is missing.

    The cache is the user's cache folder of this application, or what :data:`ENVIRONMENT_VARIABLE` names.

    Raises:
        HarnessError: the folder cannot be made.
    """
    root = Path(os.environ.get(ENVIRONMENT_VARIABLE) or platformdirs.user_cache_path("pulsar-conformance"))
    folder = root.expanduser().absolute().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"The cache folder {folder} cannot be made: {error.strerror}.") from error
    return folder


@contextmanager
def sole_maker(destination: Path) -> Iterator[Path]:
    """Hold the lock on making ``destination`` and yield an empty folder beside it to make it in.

    The caller moves the result to ``destination`` in one step, so that it is complete or missing. The folder
    is removed at the end, or, should this process be killed, by the next that comes to make the same.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    workshop = destination.with_name(f"{destination.name}.partial")
    with FileLock(f"{destination}.lock"):
        shutil.rmtree(workshop, ignore_errors=True)
        workshop.mkdir()
        try:
            yield workshop
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
