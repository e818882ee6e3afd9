"""The processes of a deployment in a run folder: each starts and ends by itself, and says why it is not there."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.brokers.launching.jvm import Program, java_command
from conformance.brokers.launching.ports import HOST, free_ports
from conformance.brokers.launching.probe import Probe
from conformance.brokers.launching.runs import GuardedProcess, RunFolder
from conformance.brokers.obtaining.java import Java
from conformance.brokers.processes.bookie import bookie_program, registration
from conformance.brokers.processes.broker import BrokerPorts, broker_program
from conformance.brokers.processes.zookeeper import ZooKeeper, data_folder, zookeeper_program
from conformance.brokers.release import Release
from conformance.harness_error import HarnessError
from conformance.wait import wait_until

ZOOKEEPER: Final = "zookeeper"
BOOKIE: Final = "bookie"
BROKER: Final = "broker"
ROLES: Final = (ZOOKEEPER, BOOKIE, BROKER)

START_DEADLINE_S: Final = 120.0
_END_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.01
_EXCERPT_LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The TCP ports of a deployment."""

    zookeeper: int
    bookie: int
    broker: BrokerPorts

    @classmethod
    def chosen(cls) -> Ports:
        """Return ports that are free now.

        Raises:
            HarnessError: there are none.
        """
        zookeeper, bookie, service, admin, agent, proxy = free_ports(6)
        broker = BrokerPorts(service=service, admin=admin, agent=agent, proxy=proxy)
        return cls(zookeeper=zookeeper, bookie=bookie, broker=broker)


class Processes:
    """A ZooKeeper, a bookie and a broker, none of them started yet.

    ``name`` is the broker's, for errors; ``options`` gives further options of Java for each role. Every method raises
    :class:`~conformance.harness_error.HarnessError` where a process does not do as asked within its deadline, with the
    end of its log.
    """

    def __init__(
        self,
        release: Release,
        java: Java,
        *,
        name: str,
        options: Callable[[str], Sequence[str]],
        deadline_s: float = START_DEADLINE_S,
    ) -> None:
        self.ports: Final = Ports.chosen()
        self.run: Final = RunFolder()
        self.store: Final = ZooKeeper(self.ports.zookeeper)
        self.probe: Final = Probe(f"http://{HOST}:{self.ports.broker.admin}")
        self._name: Final = name
        self._release: Final = release
        self._java: Final = java
        self._options: Final = options
        self._deadline_s: Final = deadline_s
        self._processes: Final = {role: GuardedProcess(self.run, role) for role in ROLES}

    def process(self, role: str) -> GuardedProcess:
        """Give one of them, whether it runs or not."""
        return self._processes[role]

    def running(self, role: str) -> GuardedProcess:
        """Give one of them. HarnessError if it does not run."""
        process = self._processes[role]
        if process.pid() is None:
            raise HarnessError(f"The {role} of {self._name} has not been started.")
        status = process.exit_status()
        if status is not None:
            whole = f"The broker {self._name}" if role == BROKER else f"The {role} of the broker {self._name}"
            raise HarnessError(f"{whole} is not running, it ended with status {status}. {self._said(process)}")
        return process

    def are_running(self) -> bool:
        """Whether all of them do."""
        return all(one.pid() is not None and one.exit_status() is None for one in self._processes.values())

    def start_zookeeper(self, template: Path | None = None) -> None:
        """Start it, on a copy of what is stored in a folder, and wait until it serves clients."""
        data = data_folder(self.run.path)
        if template is not None:
            shutil.copytree(template, data)
        self._start(ZOOKEEPER, zookeeper_program(self.run.path, port=self.ports.zookeeper))
        self._await("ready", ZOOKEEPER, self.store.answers)
        self._require_listening(ZOOKEEPER, self.ports.zookeeper)

    def start_bookie(self, settings: Mapping[str, str]) -> None:
        """Start it with these settings on top of its own; :meth:`await_bookie` waits until it is ready."""
        port = self.ports.bookie
        program = bookie_program(
            self._release, self.run.path, port=port, zookeeper=self.ports.zookeeper, settings=settings
        )
        self.store.end_session(registration(port))
        self._start(BOOKIE, program)

    def await_bookie(self) -> None:
        """Wait until it is registered."""
        self._await("registered", BOOKIE, lambda: self.is_registered(BOOKIE))
        self._require_listening(BOOKIE, self.ports.bookie)

    def start_broker(self, settings: Mapping[str, str]) -> None:
        """Start it with these settings; :meth:`await_broker` waits until it is ready.

        What a broker that was killed has registered is removed first, as its session would do in the end.
        """
        program = broker_program(self._release, self.run.path, settings)
        self.store.end_session(self.ports.broker.registration)
        self._start(BROKER, program)

    def await_broker(self) -> None:
        """Wait until it answers a look-up, and ``public/default`` exists."""
        ours = {self.ports.broker.service, self.ports.broker.admin}

        def is_ready() -> bool:
            # Nobody else is taken for it: it is asked once it is its own process that listens.
            return self.process(BROKER).listening_ports() >= ours and self.probe.is_ready()

        self._await("ready", BROKER, is_ready)

    def end(self, role: str, number: signal.Signals) -> None:
        """Send one of them a signal, and wait until it has ended."""
        self.running(role).send_signal(number)
        self.await_end(role)

    def is_registered(self, role: str) -> bool:
        """Whether a bookie or a broker is registered in ZooKeeper."""
        ports = self.ports
        paths = {BOOKIE: registration(ports.bookie), BROKER: ports.broker.registration}
        return paths[role] in self.store.registrations()

    def await_end(self, role: str, *, deadline_s: float = _END_DEADLINE_S) -> None:
        """Wait until one of them has ended."""
        process = self._processes[role]
        if not wait_until(lambda: process.exit_status() is not None, deadline_s, pause_s=_POLL_S):
            raise HarnessError(f"The {role} of {self._name} did not end within {deadline_s:g} s. {self._said(process)}")

    def close(self) -> None:
        """End all of them with SIGKILL and remove the run folder. Safe to call twice."""
        self.run.close()

    def _start(self, role: str, program: Program) -> None:
        folder = self.run.path
        options = self._options(role)
        self._processes[role].start(java_command(self._release, self._java, folder, program, options=options))

    def _await(self, what: str, role: str, condition: Callable[[], bool]) -> None:
        process = self._processes[role]

        def is_done() -> bool:
            self.running(role)
            return condition()

        if not wait_until(is_done, self._deadline_s, pause_s=_POLL_S):
            raise HarnessError(
                f"The {role} of {self._name} was not {what} within {self._deadline_s:g} s. {self._said(process)}"
            )

    def _require_listening(self, role: str, port: int) -> None:
        process = self._processes[role]
        if port not in process.listening_ports():
            raise HarnessError(f"The {role} of {self._name} does not listen on its port {port}. {self._said(process)}")

    @staticmethod
    def _said(process: GuardedProcess) -> str:
        return f"The end of its log:\n{process.last_lines(_EXCERPT_LINES)}"
