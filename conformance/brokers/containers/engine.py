"""Reaches the container engine of this machine, and runs one for a while where there is none and we may.

The engine is the one that testcontainers talks to (``DOCKER_HOST``, the docker context, or the usual socket). What runs
in it is not this module's business.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from docker import DockerClient  # type: ignore[import-untyped]
from docker.errors import APIError, DockerException, ImageNotFound, NotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient as TestcontainersClient
from testcontainers.core.docker_client import get_docker_host

from conformance.brokers.containers.debian import Unavailable, provide
from conformance.brokers.installation.cache import cache_folder
from conformance.harness_error import HarnessError
from conformance.wait import wait_until

__all__ = ["APIError", "DockerClient", "DockerException", "ImageNotFound", "NotFound", "connect", "running_engine"]

_START_DEADLINE_S = 60.0
_STOP_DEADLINE_S = 60.0
_POLL_INTERVAL_S = 0.1


def connect() -> DockerClient:
    """Return a client of the container engine, which has answered.

    Raises:
        HarnessError: no engine answers, or the one that would is on another machine.
    """
    _require_local(get_docker_host())
    # Ryuk, the container with which testcontainers cleans up, is one more image to pull and needs the engine's socket
    # inside; what we start is removed by its owner's guardian and by the next run (see `leftovers`).
    testcontainers_config.ryuk_disabled = True
    try:
        client = TestcontainersClient().client
        client.ping()
    except DockerException as error:
        raise HarnessError(
            f"No container engine answers ({_innermost(error)}): install and start docker, or set DOCKER_HOST; as root "
            f"on Debian, `{sys.executable} -m conformance.brokers.containers RELEASE COMMAND...` does it for a command."
        ) from error
    return client


@contextmanager
def running_engine() -> Iterator[DockerClient]:
    """Provide an engine for the time of the ``with`` block: the one that answers, or else a ``dockerd`` of our own.

    Ours is stopped at the end, and also when this process dies. Images and packages stay, for the next time.

    Raises:
        Unavailable: none answers, and none can be installed or started here.
    """
    if not _answers():
        _require_permission()
        provide("dockerd", "docker.io", "iptables")
    if _answers():  # also where installing the package has started it
        yield connect()
        return
    with _daemon():
        yield connect()


def _require_permission() -> None:
    if get_docker_host():
        raise Unavailable(f"No container engine of this machine answers at {get_docker_host()}.")
    if os.geteuid() != 0:
        raise Unavailable("No container engine answers, and starting dockerd takes root.")


@contextmanager
def _daemon() -> Iterator[None]:
    log = cache_folder("containers") / "dockerd.log"
    print(f"== starting dockerd, its log is {log}", flush=True)
    with log.open("wb") as output:
        # setpriv has the kernel send SIGTERM to dockerd when we die. A Ctrl-C is meant for the command, which is to
        # clean up its containers first: hence a session of its own.
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "dockerd"], stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait_until_it_answers(daemon, log)
        yield
    finally:
        _stop(daemon)


def _wait_until_it_answers(daemon: subprocess.Popen[bytes], log: Path) -> None:
    answers = wait_until(
        lambda: _answers() or (None if daemon.poll() is None else "ended"), _START_DEADLINE_S, pause_s=_POLL_INTERVAL_S
    )
    if answers is not True:
        last = (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise Unavailable(f"dockerd did not start; the last it said was: {last}")


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(_STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _require_local(address: str | None) -> None:
    """Refuse an engine elsewhere: a broker's ports must be the same inside the container and on this machine."""
    parts = urlsplit(address or "")
    if parts.scheme == "ssh" or (parts.hostname or "localhost") not in ("localhost", "127.0.0.1", "::1"):
        raise HarnessError(
            f"The container engine at {address} is on another machine: brokers can only be run on this one."
        )


def _answers() -> bool:
    try:
        connect().close()
    except HarnessError:
        return False
    return True


def _innermost(error: BaseException) -> str:
    """Return the reason below docker's and its HTTP client's own words, e.g. ``Permission denied``."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
