"""The Byteman agent in a broker's process, so that defects and failpoints can be switched on inside it.

A process loads it at its start or while it runs. Most processes do not need it, and a process that starts with an agent
cannot use class-data archives. ``conformance.faults`` sends the requests to the agent.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath

from conformance.brokers.installation.artifacts import artifact
from conformance.harness_error import HarnessError
from conformance.wait import wait_until

ATTACHABLE = ("-XX:+EnableDynamicAgentLoading", "-Dorg.jboss.byteman.transform.all")
"""The Java options that allow a process to load the agent later."""

_BYTEMAN_VERSION = "4.0.26"
_DEADLINE_S = 60.0
_PROTOCOL = "1"


def agent_jar() -> Path:
    """Return the agent's jar, fetched on its first use.

    Raises:
        HarnessError: it cannot be fetched.
    """
    return artifact("org.jboss.byteman", "byteman", _BYTEMAN_VERSION)


def agent_options(jar: PurePosixPath, *, address: str, port: int) -> tuple[str, ...]:
    """Return the options with which Java loads the agent from ``jar`` and has it listen at ``address`` and ``port``."""
    return (f"-javaagent:{_agent(jar, address, port)}", "-Dorg.jboss.byteman.transform.all")


def load_agent(
    pid: int,
    folder: Path,
    send_signal: Callable[[signal.Signals], None],
    *,
    address: str,
    port: int,
    rules: Path | None = None,
) -> None:
    """Have a running Java process, which was started in ``folder``, load the agent, by HotSpot's attach mechanism.

    ``rules``: a file with Byteman rules that it is to have from then on.

    Raises:
        HarnessError: it does not, or the agent does not listen then.
    """
    trigger = folder / f".attach_pid{pid}"
    listener = Path(f"/tmp/.java_pid{pid}")
    trigger.touch()
    try:
        send_signal(signal.SIGQUIT)
        if not wait_until(listener.is_socket, _DEADLINE_S, pause_s=0.005):
            raise HarnessError(f"The broker's Java does not let itself be attached to within {_DEADLINE_S:g} s.")
        with_rules = "" if rules is None else f",script:{rules}"
        answer = _asked(listener, "load", "instrument", "false", _agent(agent_jar(), address, port) + with_rules)
    finally:
        trigger.unlink(missing_ok=True)
        listener.unlink(missing_ok=True)  # a process that is killed leaves it
    if answer.split() not in (["0"], ["0", "return", "code:", "0"]):
        raise HarnessError(f"The broker's Java did not load the Byteman agent: {' '.join(answer.split())}.")
    if not wait_until(lambda: _accepts(address, port), _DEADLINE_S, pause_s=0.005):
        raise HarnessError(f"The Byteman agent does not listen at {address}:{port} within {_DEADLINE_S:g} s.")


def _agent(jar: PurePath, address: str, port: int) -> str:
    return f"{jar}=listener:true,address:{address},port:{port},boot:{jar}"


def _asked(listener: Path, *words: str) -> str:
    """Return the answer of a process to one command: a status and a text."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_DEADLINE_S)
        try:
            connection.connect(os.fspath(listener))
            connection.sendall(b"".join(f"{word}\0".encode() for word in (_PROTOCOL, *words)))
            return b"".join(iter(lambda: connection.recv(1 << 12), b"")).decode(errors="replace")
        except OSError as error:
            raise HarnessError(f"The broker's Java could not be attached to: {error}.") from error


def _accepts(address: str, port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex((address, port)) == 0
