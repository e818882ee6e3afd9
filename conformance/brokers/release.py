"""An unpacked distribution of a Pulsar release: where it is, its version, and how its start differs from others.

It starts nothing; :mod:`conformance.brokers.launch` does with what is written here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from conformance.brokers.artifacts import artifact
from conformance.brokers.cache import cache_folder
from conformance.brokers.unpack import unpacked
from conformance.trouble import Trouble

_BROKER_JAR = re.compile(r"org\.apache\.pulsar-pulsar-broker-(\d.*)\.jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A folder with ``lib/`` and ``conf/standalone.conf``, and the version of the broker in it, e.g. ``4.0.8``."""

    folder: Path
    version: str

    @property
    def keeps_metadata_in_rocksdb(self) -> bool:
        """Whether the standalone keeps its metadata in RocksDB, as from 2.11 on, instead of in a ZooKeeper."""
        return self._number >= (2, 11)

    @property
    def chooses_bookie_port(self) -> bool:
        """Whether the bookie's port can be said on the command line; 5.x took the flag away."""
        return self._number < (5, 0)

    @property
    def survives_kill(self) -> bool:
        """Whether the standalone comes back on the same data after SIGKILL; before 3.2 it does not."""
        return self._number >= (3, 2)

    def shipped_configuration(self) -> str:
        """Return the text of the configuration file that it comes with."""
        return (self.folder / "conf" / "standalone.conf").read_text("utf-8")

    @property
    def _number(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def fetched_release(version: str) -> Release:
    """Return the released distribution of that version from Maven Central, downloaded and unpacked on its first use.

    Raises:
        Trouble: there is none of that version, or it cannot be fetched, verified or unpacked.
    """
    folder = cache_folder("releases") / version
    if not folder.exists():
        archive = artifact(
            "org.apache.pulsar", "pulsar-server-distribution", version, packaging="tar.gz", classifier="bin"
        )
        unpacked(archive, folder)
    return release_in(folder)


def release_in(folder: Path) -> Release:
    """Return the distribution in a folder, for instance of one's own build.

    Raises:
        Trouble: the folder does not look like an unpacked distribution.
    """
    if not (folder / "conf" / "standalone.conf").is_file():
        raise Trouble(f"{folder} is not an unpacked Pulsar distribution: it has no conf/standalone.conf.")
    versions = [found[1] for jar in (folder / "lib").glob("*.jar") if (found := _BROKER_JAR.fullmatch(jar.name))]
    if len(versions) != 1 or not re.match(r"\d+\.\d+\.", versions[0]):
        raise Trouble(f"{folder} is not an unpacked Pulsar distribution: lib/ should have one jar of pulsar-broker.")
    return Release(folder=folder.absolute(), version=versions[0])
