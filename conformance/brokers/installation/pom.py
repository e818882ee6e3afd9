"""Reads Maven's project files (POMs), and writes one of another version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from conformance.brokers.installation.artifacts import Coordinates

_NAMESPACE: Final = "http://maven.apache.org/POM/4.0.0"
_OF_TESTS: Final = frozenset({"test", "provided", "system"})
"""The scopes of dependencies that do not belong to a program when it runs."""

Name = tuple[str, str]
"""An artifact without its version: group and name."""


class Pom:
    """A project file, of which only what it says itself is read: nothing of its parent, no properties."""

    def __init__(self, file: Path) -> None:
        self._root: Final = ElementTree.parse(file).getroot()
        for element in self._root.iter():  # some files have no namespace
            element.tag = element.tag.rpartition("}")[2]

    def stated(self) -> Mapping[Name, str]:
        """The versions that it states of what it needs to run."""
        return dict(_versions(one for one in self._root.iterfind("dependencies/dependency") if _is_needed(one)))

    def has_management(self) -> bool:
        """Whether it manages any dependency."""
        return self._root.find("dependencyManagement/dependencies/dependency") is not None

    def as_version(self, old: str, new: str) -> str:
        """The text of this file as that of another version of it: what has its group and its version follows."""
        group = _text(self._root, "groupId") or _text(self._root, "parent/groupId")
        managed = self._root.findall("dependencyManagement/dependencies/dependency")
        for element in (self._root, *self._root.iterfind("parent"), *managed):
            version = element.find("version")
            if version is not None and version.text == old and (_text(element, "groupId") or group) == group:
                version.text = new
        self._root.attrib.clear()
        self._root.set("xmlns", _NAMESPACE)
        return ElementTree.tostring(self._root, "unicode")


def _is_needed(dependency: ElementTree.Element) -> bool:
    return _text(dependency, "scope") not in _OF_TESTS and _text(dependency, "optional") != "true"


def _versions(dependencies: Iterator[ElementTree.Element]) -> Iterator[tuple[Name, str]]:
    for one in dependencies:
        version = _text(one, "version")
        if version and "${" not in version:
            yield (_text(one, "groupId"), _text(one, "artifactId")), version


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def coordinates_of(name: Name, version: str, packaging: str = "pom") -> Coordinates:
    return Coordinates(group=name[0], name=name[1], version=version, packaging=packaging)
