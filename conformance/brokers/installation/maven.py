"""Runs Maven to resolve an artifact with everything that it needs at run time, from Maven Central only.

Maven itself is fetched like any artifact, so that only Java has to be there. It verifies the published checksum of each
file (``--strict-checksums``) and keeps all files in the suite's cache, where other releases find those that they share.
What becomes of the files is the caller's business.
"""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from filelock import FileLock

from conformance.brokers.installation.artifacts import Coordinates, artifact, central_address
from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.installation.java import find_java
from conformance.brokers.installation.unpack import unpacked
from conformance.harness_error import HarnessError

_MAVEN: Final = "3.9.9"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_OVERRIDDEN: Final = re.compile(
    r"([^\s:(]+):([^\s:]+):([^\s:]+):(?:([^\s:]+):)?([^\s:]+):(?:compile|runtime)"
    r"\b.*?(version managed from|omitted for conflict with) ([^\s;)]+)"
)
"""A line of a tree of dependencies: of another version than required, or another version than the one taken."""
_DOWNLOADED: Final = "Downloaded from "
_NOT_FOUND: Final = re.compile(r"Could not find artifact (\S+)|(\S+) was not found in ")
_ERROR: Final = "[ERROR] "


class Unresolved(HarnessError):
    """Maven Central lacks some of what is needed: ``missing``."""

    def __init__(self, missing: Sequence[Coordinates]) -> None:
        super().__init__(f"Maven Central has no {' and no '.join(map(str, missing))}.")
        self.missing: Final = tuple(missing)


@dataclass(frozen=True, slots=True)
class Resolved:
    """One file that was resolved, verified; do not change it, other releases share it."""

    coordinates: Coordinates
    file: Path


@dataclass(frozen=True, slots=True)
class Overridden:
    """What an artifact requires, while another version was taken."""

    required: Coordinates
    taken: str


@dataclass(frozen=True, slots=True)
class Resolution:
    jars: list[Resolved]
    overridden: list[Overridden]


def resolve(
    wanted: Iterable[Coordinates],
    *,
    managed_by: Coordinates,
    pinned: Iterable[Coordinates] = (),
    substitutes: Path,
    workshop: Path,
    on_file: Callable[[], None],
) -> Resolution:
    """Resolve artifacts and all that they need at run time, in the order of the class path.

    ``managed_by``: the POM whose dependency management counts, after ``pinned``; an empty version in ``wanted`` is
    taken from there. ``substitutes``: a folder, laid out as a local repository, with what Maven Central lacks.
    ``workshop``: a folder for what Maven writes. ``on_file``: called for each file that was downloaded.

    Raises:
        Unresolved: Maven Central lacks something that is needed.
        HarnessError: something cannot be resolved for another reason; the message says what.
    """
    repository = cache_folder("maven")
    (workshop / "pom.xml").write_text(_pom(wanted, managed_by, pinned), "utf-8")
    (workshop / "settings.xml").write_text(_settings(), "utf-8")
    class_path, tree = workshop / "class-path", workshop / "tree"
    places = ["-s", "settings.xml", f"-Dmaven.repo.local={repository}", f"-Dmaven.repo.local.tail={substitutes}"]
    goals = [f"{_PLUGIN}:build-classpath", f"{_PLUGIN}:tree", "-Dverbose"]
    files = [f"-Dmdep.outputFile={class_path}", f"-DoutputFile={tree}", "-Dmdep.includeScope=runtime"]
    updates = [] if class_path.exists() else ["-U"]
    class_path.touch()
    with FileLock(f"{repository}.lock"):  # Maven does not expect others to write there at the same time
        _run([*_maven(), "-B", "-C", *updates, *places, *files, *goals], workshop, on_file)
    jars = [_resolved(Path(name), repository) for name in class_path.read_text("utf-8").strip().split(":")]
    return Resolution(jars, [_overridden(found) for found in _OVERRIDDEN.finditer(tree.read_text("utf-8"))])


def _overridden(found: re.Match[str]) -> Overridden:
    group, name, packaging, classifier, version, how, other = found.groups()
    required, taken = (other, version) if how.startswith("version") else (version, other)
    coordinates = Coordinates(group=group, name=name, version=required, packaging=packaging, classifier=classifier)
    return Overridden(coordinates, taken)


def _maven() -> list[str]:
    """The command that runs Maven, without its script, on the Java of brokers."""
    archive = artifact("org.apache.maven", "apache-maven", _MAVEN, packaging="tar.gz", classifier="bin")
    home = unpacked(archive, cache_folder("tools") / f"apache-maven-{_MAVEN}")
    (boot,) = home.glob("boot/plexus-classworlds-*.jar")
    return [
        str(find_java().executable),
        *_proxy(),
        "-cp",
        str(boot),
        f"-Dclassworlds.conf={home}/bin/m2.conf",
        f"-Dmaven.home={home}",
        f"-Dlibrary.jansi.path={home}/lib/jansi-native",
        "-Dmaven.multiModuleProjectDirectory=.",
        "org.codehaus.plexus.classworlds.launcher.Launcher",
    ]


def _proxy() -> Iterator[str]:
    """Java's options for the proxy that other programs read from the environment."""
    given = urlsplit(urllib.request.getproxies().get("https", ""))
    if given.hostname is not None:
        yield f"-Dhttps.proxyHost={given.hostname}"
        yield f"-Dhttps.proxyPort={given.port or 80}"


def _run(command: Sequence[str], folder: Path, on_file: Callable[[], None]) -> None:
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as maven:
        assert maven.stdout is not None
        for line in maven.stdout:
            if _DOWNLOADED in line:
                on_file()
            elif line.startswith(_ERROR):
                said.append(line.removeprefix(_ERROR).strip())
    if maven.returncode:
        raise _failure(said)


def _failure(said: Sequence[str]) -> HarnessError:
    """Why Maven failed, in a sentence."""
    named = dict.fromkeys(found[1] or found[2] for text in said for found in _NOT_FOUND.finditer(text))
    missing = [one for name in named if (one := _named(name)) is not None]
    if missing:
        return Unresolved(missing)
    return HarnessError(f"Maven cannot resolve it: {said[0] if said else 'it did not say why'}")


def _named(text: str) -> Coordinates | None:
    """The file that Maven names: ``group:name:packaging:version``, or with the classifier before the version."""
    match text.rstrip(".,").split(":"):
        case [group, name, packaging, version]:
            return Coordinates(group=group, name=name, version=version, packaging=packaging)
        case [group, name, packaging, classifier, version]:
            return Coordinates(group=group, name=name, version=version, packaging=packaging, classifier=classifier)
        case _:
            return None


def _resolved(file: Path, repository: Path) -> Resolved:
    *group, name, version, _ = file.relative_to(repository).parts
    classifier = file.stem.removeprefix(f"{name}-{version}").lstrip("-") or None
    return Resolved(Coordinates(group=".".join(group), name=name, version=version, classifier=classifier), file)


def _settings() -> str:
    """Ignore the repositories in POMs, some of which no longer exist: use Maven Central only."""
    mirror = f"<id>central-only</id><mirrorOf>*</mirrorOf><url>{escape(central_address())}</url>"
    return f"<settings><mirrors><mirror>{mirror}</mirror></mirrors></settings>"


def _pom(wanted: Iterable[Coordinates], managed_by: Coordinates, pinned: Iterable[Coordinates]) -> str:
    first = "".join(_dependency(one) for one in pinned)
    needed = "".join(_dependency(one) for one in wanted)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pulsar-conformance</groupId><artifactId>assembled</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencyManagement><dependencies>{first}"
        f"{_dependency(managed_by, '<scope>import</scope>')}</dependencies></dependencyManagement>"
        f"<dependencies>{needed}</dependencies></project>"
    )


def _dependency(one: Coordinates, more: str = "") -> str:
    version = f"<version>{escape(one.version)}</version>" if one.version else ""
    classifier = f"<classifier>{escape(one.classifier)}</classifier>" if one.classifier else ""
    return (
        f"<dependency><groupId>{escape(one.group)}</groupId><artifactId>{escape(one.name)}</artifactId>{version}"
        f"<type>{escape(one.packaging)}</type>{classifier}{more}</dependency>"
    )
