"""The ZooKeeper of a deployment: its configuration, who is registered in it, and how a session is ended.

A broker that was killed keeps its registrations until its session expires, which takes as long as its session timeout.
A client with the password of a session can reconnect to it and close it. ZooKeeper derives the password from the
session id, so the suite can end any session, and keeps the timeouts as shipped.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import struct
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from conformance.brokers.processes.member import DeploymentProcess, Kind, Site
from conformance.brokers.startup.jvm import JavaProgram
from conformance.brokers.startup.ports import HOST
from conformance.harness_error import HarnessError

BROKERS: Final = "/loadbalance/brokers/"
BOOKIES: Final = "/ledgers/available/"
"""Below these, brokers and bookies register themselves, by their addresses, for as long as their sessions last."""

_CONFIGURATION: Final = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
tickTime=200
minSessionTimeout=400
maxSessionTimeout=60000
admin.enableServer=false
forceSync=no
maxClientCnxns=0
preAllocSize=1024
"""

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_MEMORY: Final = ("-Xmx128m", "-Dzookeeper.forceSync=no")
_ANSWER_TIMEOUT_S: Final = 5.0
_FROZEN_S: Final = 1.5
"""How long it stays frozen: long enough for other operations, far shorter than a session, which is 30 s as shipped."""
_SESSION: Final = re.compile(r"(0x[0-9a-f]+):")
_SUPER_SECRET: Final = 0xB3415C00
_PASSWORD_BYTES: Final = 16
_CLOSE_SESSION: Final = -11


class ZooKeeperProcess(DeploymentProcess):
    """The ZooKeeper of a deployment."""

    def __init__(self, site: Site, *, port: int) -> None:
        super().__init__(site, "zookeeper")
        self.port: Final = port
        self.store: Final = ZooKeeper(port)
        self._threads: Final = ThreadPoolExecutor(1, "zookeeper")
        self._return: Future[None] | None = None

    @property
    def data(self) -> Path:
        """Where it keeps what it stores."""
        return self.site.run.path / "data" / "zookeeper"

    def start(self, template: Path | None = None) -> None:
        """Start it, on a copy of what is stored in a folder or on what it has, and wait until it serves clients."""
        if template is not None:
            shutil.copytree(template, self.data)
        file = self.site.run.path / "zookeeper.cfg"
        file.write_text(_CONFIGURATION.format(data=self.data, port=self.port, host=HOST), "utf-8")
        self._start(JavaProgram(main=_MAIN, arguments=[str(file)], memory=_MEMORY))
        self._await("ready", self.store.answers)
        self._require_listening(self.port)

    def freeze(self) -> None:
        """Freeze it for a moment, much shorter than the timeout of sessions; it returns by itself."""
        self.await_return()
        self.send_signal(signal.SIGSTOP)
        self._return = self._threads.submit(self._thaw)

    def _thaw(self) -> None:
        time.sleep(_FROZEN_S)
        self.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kill it, and start it again on its data, which has the sessions, without waiting for it."""
        self.await_return()
        self.end(signal.SIGKILL)
        self._return = self._threads.submit(self.start)

    def await_return(self) -> None:
        """Wait until it is back, if it was frozen or restarted. HarnessError if it does not start."""
        if self._return is not None:
            self._return.result()
            self._return = None


class RegisteredMember(DeploymentProcess):
    """A bookie or broker: it registers itself in ZooKeeper, under ``path``."""

    def __init__(self, site: Site, kind: Kind, number: int, *, zookeeper: ZooKeeperProcess, path: str) -> None:
        super().__init__(site, kind, number)
        self.zookeeper: Final = zookeeper
        self.registration: Final = path
        """Where it is registered."""

    @property
    def is_registered(self) -> bool:
        """Whether it is registered."""
        return self.session() is not None

    def session(self) -> int | None:
        """The session in which it is registered; None if it is not."""
        self.zookeeper.await_return()
        return self.zookeeper.store.registrations().get(self.registration)

    def end_session(self) -> bool:
        """Have its session in ZooKeeper expire now, with all that it has registered; whether it had one.

        Some releases end then.
        """
        self.zookeeper.await_return()
        if self.is_running:
            self.may_end()
        return self.zookeeper.store.end_session(self.registration)


class ZooKeeper:
    """A running one, by its port."""

    def __init__(self, port: int) -> None:
        self._port: Final = port

    def answers(self) -> bool:
        """Whether it serves clients."""
        try:
            return self._asked("ruok") == "imok"
        except OSError:
            return False

    def registrations(self) -> Mapping[str, int]:
        """Return what is there for as long as a session lasts, by path, and the session's id.

        Raises:
            HarnessError: it does not answer.
        """
        try:
            lines = self._asked("dump").splitlines()
        except OSError as error:
            raise HarnessError(f"The ZooKeeper of the broker does not answer: {error}.") from error
        found: dict[str, int] = {}
        session = None
        for line in lines:
            if header := _SESSION.fullmatch(line.strip()):
                session = int(header[1], 16)
            elif line.startswith("\t/") and session is not None:
                found[line.strip()] = session
        return found

    def end_session(self, path: str) -> bool:
        """Close the session to which a registration belongs, with all of its registrations; whether there was one.

        Raises:
            HarnessError: it does not answer.
        """
        session = self.registrations().get(path)
        if session is None:
            return False
        try:
            self._close(session)
        except (OSError, EOFError) as error:
            raise HarnessError(f"The session of {path} could not be ended in ZooKeeper: {error}.") from error
        return True

    def _asked(self, word: str) -> str:
        """Return the answer to one of ZooKeeper's four-letter words."""
        with self._connection() as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    def _close(self, session: int) -> None:
        """Reconnect to a session and close it, in ZooKeeper's binary protocol."""
        password = _password(session)
        request = struct.pack(">iqiqi", 0, 0, 30_000, session, len(password)) + password + b"\0"
        with self._connection() as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            _, _, timeout_ms = struct.unpack_from(">iii", _received(connection))
            if timeout_ms > 0:  # otherwise it has expired already
                connection.sendall(struct.pack(">iii", 8, 1, _CLOSE_SESSION))
                with contextlib.suppress(EOFError):  # the answer, or the end of the connection
                    _received(connection)

    def _connection(self) -> socket.socket:
        return socket.create_connection((HOST, self._port), timeout=_ANSWER_TIMEOUT_S)


def _received(connection: socket.socket) -> bytes:
    """Return the next frame: what follows the four bytes of its length; with that length in front of it."""
    received = b""
    while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
        chunk = connection.recv(1 << 12)
        if not chunk:
            raise EOFError
        received += chunk
    return received


def _password(session: int) -> bytes:
    """Return the password of a session: the first bytes of ``java.util.Random``, seeded with the id and a constant."""
    state = (session ^ _SUPER_SECRET ^ 0x5DEECE66D) & ((1 << 48) - 1)
    password = b""
    while len(password) < _PASSWORD_BYTES:
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        password += struct.pack("<I", state >> 16)
    return password
