"""Sees to it that no container outlives the run that made it, without Ryuk.

Every container carries the label of a *claim*. The claim's owner, the suite's process, holds a lock on a file for as
long as it lives, and feeds a pipe to a janitor: a small process that waits for the pipe's end and then removes the
claim's containers with their volumes. Should the janitor, or the engine, have been killed as well, the next run finds
the lock free and does it. Images are not touched.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from conformance.brokers.containers.engine import APIError, DockerClient, DockerException, connect
from conformance.brokers.installation.cache import cache_folder
from conformance.harness_error import HarnessError

_LABEL = "pulsar-conformance.claim"
_END_DEADLINE_S = 60.0


class Claim:
    """The right of this process to some containers; they are gone when it is released, or when the process is gone."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex[:12]
        self._lock = FileLock(_lock_file(self.name), thread_local=False)
        self._lock.acquire()
        self._janitor = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, self.name],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the suite's terminal does not reach it
        )

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that put a container under this claim."""
        return {_LABEL: self.name}

    def release(self) -> None:
        """Remove what is left under the claim, and give it up. Safe to call twice.

        Should that fail, for instance because the engine is gone, it is left to the next run.
        """
        assert self._janitor.stdin is not None
        self._janitor.stdin.close()
        try:
            everything_removed = self._janitor.wait(_END_DEADLINE_S) == 0
        except subprocess.TimeoutExpired:
            everything_removed = False
            self._janitor.kill()
            self._janitor.wait()
        self._lock.release()
        if everything_removed:
            _lock_file(self.name).unlink(missing_ok=True)


def remove_leftovers(client: DockerClient) -> None:
    """Remove the containers under claims of this user whose owners are gone."""
    for file in _claims_folder().glob("*.lock"):
        lock = FileLock(file)
        with contextlib.suppress(Timeout), lock.acquire(timeout=0):
            if remove_claimed(client, file.stem):
                file.unlink(missing_ok=True)


def remove_claimed(client: DockerClient, claim: str) -> bool:
    """Remove the containers under a claim, in any state, with their volumes; return whether none is left."""
    for container in claimed(client, claim):
        with contextlib.suppress(APIError):  # somebody else is removing it just now, or has done so
            container.remove(force=True, v=True)
    return not claimed(client, claim)


def claimed(client: DockerClient, claim: str) -> list[Any]:
    """Return the containers under a claim, running or not."""
    containers: list[Any] = client.containers.list(
        all=True, filters={"label": f"{_LABEL}={claim}"}, ignore_removed=True
    )
    return containers


def main(claim: str) -> int:
    """Wait for the end of the standard input, then remove what is under the claim: the janitor. Returns 0 if it did."""
    sys.stdin.buffer.read()
    try:
        return 0 if remove_claimed(connect(), claim) else 1
    except (HarnessError, DockerException, OSError):
        return 1


def _claims_folder() -> Path:
    return cache_folder("containers", "claims")


def _lock_file(claim: str) -> Path:
    return _claims_folder() / f"{claim}.lock"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
