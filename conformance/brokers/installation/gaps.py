"""Resolves a release with what Maven Central has of it, which is not always all.

If the release's own dependency management is not published, the nearest release's serves. Versions that the release's
modules state themselves count before it, and so do newer ones that a library of the release requires, as in the build
of the release. If a POM, such as the parent of a library, is missing, that of the nearest version stands in for it, so
that the jar itself can be had; if a jar is missing, the nearest version of it. Pulsar's own jars are of the release,
unless a module of it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.brokers.installation.artifacts import Coordinates, NotPublished, artifact
from conformance.brokers.installation.maven import Overridden, Resolved, Unresolved, resolve
from conformance.brokers.installation.nearest import is_newer, nearest
from conformance.brokers.installation.pom import Name, Pom, coordinates_of
from conformance.brokers.installation.record import Substitute
from conformance.harness_error import HarnessError

PULSAR: Final = "org.apache.pulsar"
_MANAGEMENT: Final = ("pulsar-dependencies", "pulsar")
"""POMs with a release's dependency management: the first one that has any counts."""
_ROUNDS: Final = 40
"""Maven names one gap, or a few, at a time."""
_TESTS: Final = "tests"
_FETCHED_AT_ONCE: Final = 8


class Resolution:
    """The jars of one release. ``workshop``: a folder to work in; ``on_file``: called for each file downloaded."""

    def __init__(
        self, version: str, workshop: Path, *, on_file: Callable[[], None], on_gap: Callable[[Substitute], None]
    ) -> None:
        """Find the release's dependency management.

        Raises:
            HarnessError: there is none, nor one of a release near.
        """
        self._version: Final = version
        self._workshop: Final = workshop
        self._on_file: Final = on_file
        self._on_gap: Final = on_gap
        self._tail: Final = workshop / "substitutes"
        self._tail.mkdir()
        self._pinned: Final[dict[Coordinates, Coordinates]] = {}
        """Artifacts without a version, and with the one to take."""
        self._found: Final[dict[Coordinates, Substitute]] = {}
        own = self._own_management()
        self._management: Final = own or self._nearest_management()
        self._is_substituted: Final = own is None

    @property
    def substitutes(self) -> tuple[Substitute, ...]:
        return tuple(self._found.values())

    def resolved(self, wanted: Sequence[Coordinates]) -> list[Resolved]:
        """Resolve artifacts and all that they need.

        Raises:
            HarnessError: something is missing for which nothing can stand in, or cannot be fetched.
        """
        for _ in range(_ROUNDS):
            try:
                found = resolve(
                    wanted,
                    managed_by=self._management,
                    pinned=self._pinned.values(),
                    substitutes=self._tail,
                    workshop=self._workshop,
                    on_file=self._on_file,
                )
                if not (self._is_substituted and self._raise(found.overridden)):
                    return found.jars
            except Unresolved as unresolved:
                if not self._fill(unresolved.missing, wanted):
                    raise
        raise HarnessError(f"It has too many gaps; the last one is {list(self._found)[-1]}.")

    def _fill(self, missing: Sequence[Coordinates], wanted: Sequence[Coordinates]) -> bool:
        """Have other versions stand in for what is missing; whether that is new."""
        new = [one for one in missing if one not in self._found and one not in wanted]
        for one in new:
            if one.packaging == "pom":
                self._write(one)
            else:
                self._pin(self._instead_of(one))
        return bool(new)

    def _pin(self, jar: Coordinates) -> None:
        self._pinned[replace(jar, version="")] = jar
        if jar.classifier == _TESTS:  # a file with two names, and POMs use both
            test_jar = replace(jar, packaging="test-jar", classifier=None)
            self._pinned[replace(test_jar, version="")] = test_jar

    def _raise(self, overridden: Sequence[Overridden]) -> bool:
        """Have newer versions that are required count before those of another release; whether there are such."""
        newest: dict[Coordinates, Coordinates] = {}
        for one in overridden:
            name = replace(one.required, version="")
            known = newest.get(name, replace(one.required, version=one.taken))
            if one.required not in self._found and is_newer(one.required.version, known.version):
                newest[name] = one.required
        for jar in newest.values():
            self._pin(jar)
        return bool(newest)

    def _write(self, missing: Coordinates) -> None:
        """Write a POM that is missing, from that of the nearest version, to where Maven finds it."""
        found = self._instead_of(missing)
        pom = _published(found)
        assert pom is not None
        folder = self._tail.joinpath(*missing.group.split("."), missing.name, missing.version)
        folder.mkdir(parents=True)
        text = pom.as_version(found.version, missing.version)
        (folder / f"{missing.name}-{missing.version}.pom").write_text(text, "utf-8")

    def _instead_of(self, missing: Coordinates) -> Coordinates:
        found = nearest(missing)
        if found is None:
            raise HarnessError(f"Maven Central has no {missing}, and no version near it.")
        self._found[missing] = Substitute(missing=str(missing), used=str(found))
        self._on_gap(self._found[missing])
        return found

    def _own_management(self) -> Coordinates | None:
        each = (coordinates_of((PULSAR, name), self._version) for name in _MANAGEMENT)
        return next((one for one in each if (pom := _published(one)) is not None and pom.has_management()), None)

    def _nearest_management(self) -> Coordinates:
        for name in _MANAGEMENT:
            own = coordinates_of((PULSAR, name), self._version)
            found = nearest(own)
            pom = None if found is None else _published(found)
            if pom is not None and pom.has_management():
                stated = _stated_by_modules(self._version)
                for one, version in stated.items():
                    self._pin(coordinates_of(one, version, "jar"))
                self._write(own)
                return own
        raise HarnessError(f"Maven Central has no {coordinates_of((PULSAR, _MANAGEMENT[-1]), self._version)}.")


def _stated_by_modules(version: str) -> Mapping[Name, str]:
    """The versions of other libraries that the POMs of the broker and of the modules that it needs state."""
    stated: dict[Name, str] = {}
    seen: set[Name] = set()
    new: set[Name] = {(PULSAR, "pulsar-broker")}
    with ThreadPoolExecutor(_FETCHED_AT_ONCE) as fetching:
        while new:
            seen |= new
            poms = fetching.map(lambda name: _published(coordinates_of(name, version)), sorted(new))
            needed = [one for pom in poms if pom is not None for one in pom.stated().items()]
            new = {name for name, of in needed if name[0] == PULSAR and of == version} - seen
            for name, of in needed:
                if name[0] != PULSAR:
                    stated.setdefault(name, of)
    return stated


def _published(pom: Coordinates) -> Pom | None:
    """A POM; None if it is not published."""
    try:
        return Pom(artifact(pom.group, pom.name, pom.version, packaging="pom"))
    except NotPublished:
        return None
