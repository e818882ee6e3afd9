"""Assembles a release of which no server distribution is published, from the artifacts that are.

The folder is like that of an unpacked distribution, as far as a broker needs it: ``lib`` has the broker's jars with
everything that they need, ``conf`` the configuration files that the release ships. Which versions of other libraries
belong to a release is decided by its own dependency management; :mod:`conformance.brokers.installation.gaps` fills what
is missing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from conformance.brokers.installation.artifacts import Coordinates, is_published
from conformance.brokers.installation.cache import sole_maker
from conformance.brokers.installation.gaps import PULSAR, Resolution
from conformance.brokers.installation.maven import Resolved
from conformance.brokers.installation.record import ORIGIN_FILE, AssemblyRecord, Substitute
from conformance.brokers.installation.source_release import configuration_files
from conformance.harness_error import HarnessError

_LOG4J: Final = "org.apache.logging.log4j"
_BINDINGS: Final = {"1": "log4j-slf4j-impl", "2": "log4j-slf4j2-impl"}
"""What connects SLF4J to Log4j, by SLF4J's major version."""

_UNKNOWN_CONFIGURATION: Final = """\
# The configuration file of this release is not published. The defaults of its code count, but for these settings, which
# every release's standalone.conf has, too: one bookie, and no other broker.
metadataStoreUrl=
loadBalancerEnabled=false
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
"""
_LOGGING: Final = """\
Configuration:
  Appenders:
    Console:
      name: Console
      PatternLayout:
        pattern: "%d{ISO8601_OFFSET_DATE_TIME_HHMM} [%t] %-5level %logger{36} - %msg%n"
  Loggers:
    Root:
      level: info
      AppenderRef:
        - ref: Console
"""


def broker_of(version: str) -> Coordinates:
    """The artifact without which there is no release to assemble."""
    return Coordinates(group=PULSAR, name="pulsar-broker", version=version)


def assembled(version: str, folder: Path) -> Path:
    """Return ``folder`` with the assembled release; assembles it on the first call only, as a whole or not at all.

    Raises:
        HarnessError: not all of the release is published, or it cannot be fetched.
    """
    with sole_maker(folder) as workshop:
        if not folder.exists():
            started_s = time.monotonic()
            made = workshop / "release"
            (made / "lib").mkdir(parents=True)
            try:
                _demand_published(broker_of(version))
                with _progress(version) as progress:
                    jars, substitutes = _resolved(version, workshop, progress)
            except HarnessError as harness_error:
                raise HarnessError(
                    f"Pulsar {version} can be neither downloaded nor assembled: {harness_error}"
                ) from None
            for jar in jars:
                _link(jar.file, made / "lib" / f"{jar.coordinates.group}-{jar.file.name}")
            has_own = _write_configuration(version, made / "conf")
            seconds = round(time.monotonic() - started_s, 1)
            origin = AssemblyRecord(
                version=version,
                jars=len(jars),
                has_own_configuration=has_own,
                seconds=seconds,
                substitutes=substitutes,
            )
            (made / ORIGIN_FILE).write_bytes(msgspec.json.encode(origin))
            made.replace(folder)
    return folder


def _demand_published(broker: Coordinates) -> None:
    if not is_published(broker):
        raise HarnessError(f"Maven Central has no {broker}.")


def _resolved(version: str, workshop: Path, progress: _Progress) -> tuple[list[Resolved], tuple[Substitute, ...]]:
    """The jars of a broker, first without what writes its log: which one that has to be depends on the jars."""
    resolution = Resolution(version, workshop, on_file=progress.on_file, on_gap=progress.on_gap)
    wanted = [broker_of(version), Coordinates(group=_LOG4J, name="log4j-core", version="")]
    jars = resolution.resolved(wanted)
    binding = _BINDINGS[_version_of("slf4j-api", jars).partition(".")[0]]
    wanted.append(Coordinates(group=_LOG4J, name=binding, version=_version_of("log4j-core", jars)))
    return resolution.resolved(wanted), resolution.substitutes


def _version_of(name: str, jars: Sequence[Resolved]) -> str:
    return next(jar.coordinates.version for jar in jars if jar.coordinates.name == name)


def _link(file: Path, place: Path) -> None:
    """Have a file at another place, too, without its contents being there twice if the file system allows that."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def _write_configuration(version: str, folder: Path) -> bool:
    """Write the configuration files; whether they are the release's own."""
    folder.mkdir()
    own = configuration_files(version)
    defaults = {"standalone.conf": _UNKNOWN_CONFIGURATION.encode(), "log4j2.yaml": _LOGGING.encode()}
    for name, content in {**defaults, **own}.items():
        (folder / name).write_bytes(content)
    return "standalone.conf" in own


class _Progress:
    """Shows that a release is being assembled."""

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=None)

    def on_file(self) -> None:
        self._bar.advance(self._task)

    def on_gap(self, substitute: Substitute) -> None:
        self._bar.console.print(f"Not published, so {substitute}", soft_wrap=True, highlight=False)


@contextmanager
def _progress(version: str) -> Iterator[_Progress]:
    err = Console(stderr=True)
    what = f"Assembling Pulsar {version} from its artifacts"
    if not err.is_terminal:
        err.print(what, soft_wrap=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed} files"), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        yield _Progress(bar, what)
