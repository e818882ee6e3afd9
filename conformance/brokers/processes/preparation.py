"""What is made once for a release, and makes every later start of a deployment quicker.

The metadata of a new cluster, as ZooKeeper stores it, saves running the release's own tool each time. Class-data
archives (CDS) save the JVMs the reading and verifying of classes. An archive is good for one release, one Java and one
set of options, all of which are in its key: where one of them changes, another one is made, and the one before removed.
Where none can be made, a deployment starts without, and so does the JVM where it cannot use one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.installation.java import Java
from conformance.brokers.processes.member import Kind
from conformance.brokers.processes.members import DeploymentProcesses
from conformance.brokers.release import Release
from conformance.brokers.startup.agent import ATTACHABLE
from conformance.brokers.startup.jvm import QUICK_START, JavaProgram, java_command
from conformance.brokers.startup.ports import HOST
from conformance.brokers.startup.runs import GuardedProcess
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from conformance.wait import wait_until

_log: Final = logging.getLogger(__name__)

FIRST_CLUSTER: Final = "conformance-1"
"""The name of the first cluster that runs in a process; further ones are numbered on."""

_DEADLINE_S: Final = 300.0
"""How long a process that records its classes may take to start."""
_END_DEADLINE_S: Final = 120.0
"""How long it may take to end: it writes its archive then."""
_SETUP: Final = "org.apache.pulsar.PulsarClusterMetadataSetup"
_ARCHIVES_SINCE: Final = 13
"""The first Java that archives the classes of a program when that ends."""
_NOWHERE: Final = {"--web-service-url": "http://127.0.0.1:1", "--broker-service-url": "pulsar://127.0.0.1:2"}
"""The tool requires addresses. The suite never reads those of a broker's own cluster, so they stay placeholders."""

_FAILED: Final = "failed"


class Preparation:
    """Finds or makes what a release's deployments have in common, in the cache."""

    def __init__(self, release: Release, java: Java) -> None:
        """Nothing is made yet."""
        self._release = release
        self.java = java
        of_release = _digest(str(release.folder), str(java.executable))
        jars = sorted(
            (jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in release.folder.glob("lib/*.jar")
        )
        self._siblings = cache_folder("prepared", of_release)
        self._folder = self._siblings / _digest(java.build, *QUICK_START, *ATTACHABLE, repr(jars))

    def make(self) -> None:
        """Make the metadata of a first cluster, and the archives.

        Raises:
            HarnessError: the release's tool does not make the metadata.
        """
        self.metadata(FIRST_CLUSTER)
        self._archives()

    def metadata(self, cluster: str) -> Path:
        """Return a folder that a ZooKeeper can start on, with the metadata of a cluster of this name.

        Raises:
            HarnessError: the release's tool does not make it.
        """
        made = self._folder / "metadata" / cluster
        if not made.exists():
            with sole_maker(made) as workshop:
                if not made.exists():
                    self._set_up(cluster, workshop / "made")
                    (workshop / "made").replace(made)
        return made

    def archive(self, kind: Kind) -> Sequence[str]:
        """Return the options of Java with which a process uses its archive, made first where there is none yet."""
        file = self._archives() / _file(kind)
        return (f"-XX:SharedArchiveFile={file}",) if file.is_file() else ()

    def _archives(self) -> Path:
        made = self._folder / "archives"
        if not made.exists():
            with sole_maker(made) as workshop:
                if not made.exists():
                    self._remove_others()
                    recorded = workshop / "made"
                    recorded.mkdir()
                    if self.java.major >= _ARCHIVES_SINCE:
                        self._record(recorded)
                    recorded.replace(made)
        return made

    def _remove_others(self) -> None:
        """Remove what was made for earlier builds of the release, and for releases that are gone."""
        (self._siblings / "release").write_bytes(bytes(self._release.folder))
        for sibling in self._siblings.iterdir():
            if sibling.is_dir() and sibling != self._folder:
                shutil.rmtree(sibling, ignore_errors=True)
        for origin in self._siblings.parent.glob("*/release"):
            if not Path(origin.read_text("utf-8", errors="surrogateescape")).exists():
                shutil.rmtree(origin.parent, ignore_errors=True)

    def _set_up(self, cluster: str, made: Path) -> None:
        with self._members(lambda _: ()) as members:
            members.zookeeper.start()
            store = f"{HOST}:{members.zookeeper.port}"
            flags = {"--cluster": cluster, **_NOWHERE, **self._store_flags(store)}
            program = JavaProgram(main=_SETUP, arguments=[word for pair in flags.items() for word in pair], memory=())
            tool = GuardedProcess(members.run, "setup")
            tool.start(java_command(self._release, self.java, members.run.path, program))
            wait_until(lambda: tool.exit_status() is not None, _DEADLINE_S)
            if tool.exit_status() != 0:
                raise HarnessError(
                    f"The metadata of a cluster of {self._release.version} could not be set up: the release's tool "
                    f"ended with status {tool.exit_status()}. The end of its output:\n{tool.last_lines(20)}"
                )
            members.zookeeper.end(signal.SIGTERM)
            shutil.copytree(members.zookeeper.data, made)

    def _store_flags(self, store: str) -> Mapping[str, str]:
        """Return the tool's options for the address of the metadata store, which newer releases call otherwise."""
        if self._release.mentions(_SETUP.replace(".", "/"), "--metadata-store"):
            return dict.fromkeys(("--metadata-store", "--configuration-metadata-store"), f"zk:{store}")
        return dict.fromkeys(("--zookeeper", "--configuration-store"), store)

    def _record(self, folder: Path) -> None:
        """Have each process of a deployment write an archive of the classes that it has loaded, at its end."""
        Console(stderr=True).print(f"Preparing quick starts of Pulsar {self._release.version}, once", highlight=False)
        try:
            with self._members(lambda kind: (f"-XX:ArchiveClassesAtExit={folder / _file(kind)}",)) as members:
                (bookie,), (broker,) = members.bookies, members.brokers
                members.zookeeper.start(self.metadata(FIRST_CLUSTER))
                bookie.start({})
                broker.start({}, cluster=FIRST_CLUSTER)
                bookie.await_ready()
                broker.await_ready()
                _publish(f"pulsar://{HOST}:{broker.ports.service}")
                _end(members)
        except HarnessError as harness_error:
            _log.warning("No class-data archives of %s: %s", self._release.version, harness_error)
            (folder / _FAILED).write_text(str(harness_error), "utf-8")

    @contextlib.contextmanager
    def _members(self, options: Callable[[Kind], Sequence[str]]) -> Iterator[DeploymentProcesses]:
        members = DeploymentProcesses(
            [self._release],
            [self.java],
            name=self._release.version,
            options=lambda _, kind: (*ATTACHABLE, *options(kind)),
            deadline_s=_DEADLINE_S,
        )
        try:
            yield members
        finally:
            members.close()


def _end(members: DeploymentProcesses) -> None:
    """Have all processes write their archives, each after those that need it: a broker of some releases reconnects to
    a ZooKeeper that ended before it for ever. One that does not end has no archive, and the others keep theirs.
    """
    for member in (*members.brokers, *members.bookies, members.zookeeper):
        member.send_signal(signal.SIGTERM)
        try:
            member.await_end(_END_DEADLINE_S)
        except HarnessError as harness_error:
            _log.warning("No class-data archive: %s", harness_error)
            member.end(signal.SIGKILL)


def _publish(service_url: str) -> None:
    """Have a topic loaded and a message stored, so that the classes for these are loaded, too."""
    client = WireClient.connect(service_url, timeout_s=_DEADLINE_S)
    try:
        producer = client.open_producer("persistent://public/default/archived", name=None, timeout_s=_DEADLINE_S)
        outcome = producer.answer(producer.send(1, b"archived"), timeout_s=_DEADLINE_S)
        if not isinstance(outcome, Receipt):
            raise HarnessError(str(outcome))
    finally:
        client.abort()


def _file(kind: Kind) -> str:
    return f"{kind}.jsa"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
