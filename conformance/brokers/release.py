"""An unpacked distribution of a Pulsar release: its folder, its version, and the differences in its start.

:mod:`conformance.brokers.startup` and :mod:`conformance.brokers.processes` start it. The differences are read from
the release's classes, if these show them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
import shutil
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO

from conformance.brokers.installation.artifacts import Coordinates, NotPublished, artifact
from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.installation.java import MINIMUM_MAJOR, Java, find_java
from conformance.brokers.installation.record import origin_of
from conformance.brokers.installation.unpack import unpacked
from conformance.brokers.settings.class_file import java_of
from conformance.brokers.settings.jars import Jars
from conformance.harness_error import HarnessError

_in_use: list[IO[bytes]] = []
"""Files that this process locks until it ends, which mark the unpacked builds of its brokers."""

_STARTER = "org/apache/pulsar/PulsarBrokerStarter.class"
_OLDEST_JAVA = 11
"""The options with which the suite starts Java are for this one and later ones."""

_BROKER_JAR = re.compile(r"org\.apache\.pulsar-pulsar-broker-(\d.*)\.jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A folder with ``lib/`` and ``conf/standalone.conf``, and the version of the broker in it, e.g. ``4.0.8``."""

    folder: Path
    version: str

    @property
    def keeps_metadata_in_rocksdb(self) -> bool:
        """Whether the standalone stores its metadata in RocksDB, as from 2.11 on, instead of a ZooKeeper."""
        return self.mentions("org/apache/pulsar/PulsarStandalone", "--metadata-dir")

    @property
    def chooses_bookie_port(self) -> bool:
        """Whether the command line has an option for the standalone's bookie port; 5.x removed it."""
        return self.mentions("org/apache/pulsar/PulsarStandalone", "--bookkeeper-port")

    @property
    def has_metadata_drivers(self) -> bool:
        """Whether BookKeeper uses Pulsar's metadata drivers, as from 2.10 on."""
        return self.mentions("org/apache/pulsar/metadata/bookkeeper/PulsarMetadataBookieDriver", "PulsarMetadata")

    @property
    def survives_kill(self) -> bool:
        """Whether the standalone starts on the same data after SIGKILL; before 3.2 it does not."""
        return self._number >= (3, 2)

    @property
    def needs_java(self) -> int:
        """The oldest Java that loads the broker's classes."""
        return _needs_java(self.folder)

    @property
    def stand_ins(self) -> dict[str, str]:
        """By what is not published of it, what is used instead; nothing for an unpacked distribution."""
        origin = origin_of(self.folder)
        return {} if origin is None else origin.stand_ins

    def java(self) -> Java:
        """Find the Java for its processes.

        Raises:
            NoJava: there is none.
        """
        return find_java(self.needs_java, runs=f"Pulsar {self.version}")

    def shipped(self, file: str) -> str:
        """The text of a shipped configuration file; empty if there is none."""
        path = self.folder / "conf" / file
        return path.read_text("utf-8") if path.is_file() else ""

    def mentions(self, beginning: str, text: str) -> bool:
        """Whether a class whose path has this prefix has a text among its constants."""
        return _mentions(self.folder, beginning, text)

    @property
    def _number(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


@cache
def _needs_java(folder: Path) -> int:
    with Jars(folder) as jars:
        starter = jars.read(_STARTER)
    return MINIMUM_MAJOR if starter is None else max(_OLDEST_JAVA, java_of(starter))


@cache
def _mentions(folder: Path, beginning: str, text: str) -> bool:
    with Jars(folder) as jars:
        return jars.mention(beginning, text)


def fetched_release(version: str) -> Release:
    """Return the release of that version, downloaded and unpacked, or assembled, on its first use.

    Raises:
        HarnessError: it is not fully published, or cannot be fetched, verified or unpacked.
    """
    folder = cache_folder("releases") / version
    if not folder.exists():
        try:
            unpacked(release_archive(version), folder)
        except NotPublished:
            from conformance.brokers.installation.assembly import assembled  # few runs need it, and it imports a lot

            assembled(version, folder)
    return release_in(folder)


def release_archive(version: str) -> Path:
    """Return the verified archive of the release, from the cache or fetched.

    Raises:
        NotPublished: there is none of that version.
        HarnessError: it cannot be fetched or verified.
    """
    wanted = distribution_of(version)
    return artifact(wanted.group, wanted.name, version, packaging=wanted.packaging, classifier=wanted.classifier)


def distribution_of(version: str) -> Coordinates:
    """The server distribution of a release in Maven Central, which lacks some."""
    return Coordinates(
        group="org.apache.pulsar",
        name="pulsar-server-distribution",
        version=version,
        packaging="tar.gz",
        classifier="bin",
    )


def release_at(path: Path) -> Release:
    """Return the distribution at a path: an unpacked folder, or the tarball that a build of Pulsar makes.

    Raises:
        HarnessError: there is nothing, or it is no server distribution.
    """
    if path.is_file():
        return _release_packed_in(path.absolute())
    if not path.exists():
        raise HarnessError(f"There is no distribution at {path}: no such file or folder.")
    return release_in(path)


def candidate_at(location: str) -> Release:
    """Return the release candidate at an address, or in a file: a version of its own, such as ``5.0.2-candidate-1``.

    Raises:
        HarnessError: there is none, or it does not match its checksum.
    """
    from conformance.brokers.installation.candidate import candidate_tarball, label_of

    release = _release_packed_in(candidate_tarball(location))
    return replace(release, version=f"{release.version}-{label_of(location)}")


def _release_packed_in(tarball: Path) -> Release:
    """Return the distribution in a tarball, unpacked into the cache unless it has this build.

    A rebuilt tarball counts as another one. Earlier builds, and those of deleted tarballs, are removed from the cache
    unless a process uses them.
    """
    found = tarball.stat()
    builds = cache_folder("builds", hashlib.sha256(bytes(tarball)).hexdigest()[:16])
    (builds / "origin").write_bytes(bytes(tarball))
    folder = builds / f"{found.st_size}-{found.st_mtime_ns}"
    _hold(folder)
    _remove_old_builds(folder)
    try:
        return release_in(unpacked(tarball, folder))
    except HarnessError as harness_error:
        if not folder.exists():
            raise
        shutil.rmtree(folder)
        raise HarnessError(
            f"{tarball} is no server distribution of Pulsar; its build names one apache-pulsar-VERSION-bin.tar.gz."
        ) from harness_error


def _hold(build: Path) -> None:
    """Mark an unpacked build as used by this process until it ends."""
    mark = build.with_name(f"{build.name}.used").open("wb")
    fcntl.flock(mark, fcntl.LOCK_SH)
    _in_use.append(mark)


def _remove_old_builds(wanted: Path) -> None:
    for mark in wanted.parents[1].glob("*/*.used"):
        build = mark.with_suffix("")
        origin = Path((mark.parent / "origin").read_text("utf-8", errors="surrogateescape"))
        if build == wanted or (build.parent != wanted.parent and origin.exists()):
            continue
        with mark.open("wb") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(build, ignore_errors=True)
            build.with_name(f"{build.name}.lock").unlink(missing_ok=True)
            mark.unlink()


def release_in(folder: Path) -> Release:
    """Return the distribution in a folder.

    Raises:
        HarnessError: the folder does not look like an unpacked distribution.
    """
    if not (folder / "conf" / "standalone.conf").is_file():
        raise HarnessError(f"{folder} is not an unpacked Pulsar distribution: it has no conf/standalone.conf.")
    versions = [found[1] for jar in (folder / "lib").glob("*.jar") if (found := _BROKER_JAR.fullmatch(jar.name))]
    if len(versions) != 1 or not re.match(r"\d+\.\d+\.", versions[0]):
        raise HarnessError(
            f"{folder} is not an unpacked Pulsar distribution: lib/ should have one jar of pulsar-broker."
        )
    return Release(folder=folder.absolute(), version=versions[0])
