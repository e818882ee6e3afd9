"""Finds what can stand in for an artifact that is not published: the nearest version that is.

A version counts as published if Maven Central has the file: its lists of versions are incomplete.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from conformance.brokers.installation.artifacts import Coordinates, is_published, listed_versions

_NUMBERED: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(.*)")
_PATCHES_AROUND: Final = 5
_ASKED: Final = 20
"""How many versions are asked for at most."""


def nearest(missing: Coordinates) -> Coordinates | None:
    """Return the nearest published version of an artifact: of the same line if there is one, rather an earlier one.

    Raises:
        HarnessError: Maven Central cannot be asked.
    """
    versions = {*listed_versions(missing), *_neighbours(missing.version)} - {missing.version}
    near = sorted(filter(_NUMBERED.fullmatch, versions), key=_distance_from(missing.version))
    each = (replace(missing, version=version) for version in itertools.islice(near, _ASKED))
    return next(filter(is_published, each), None)


def is_newer(version: str, other: str) -> bool:
    """Whether a version is newer, by its numbers."""
    return _numbers(version) > _numbers(other)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _neighbours(version: str) -> Iterator[str]:
    """The other patches of a line, which need not be listed."""
    found = _NUMBERED.fullmatch(version)
    if found is not None and found[3] is not None:
        patch = int(found[3])
        for other in range(max(0, patch - _PATCHES_AROUND), patch + _PATCHES_AROUND + 1):
            yield f"{found[1]}.{found[2]}.{other}{found[4]}"
            yield f"{found[1]}.{found[2]}.{other}"


def _distance_from(version: str) -> Callable[[str], tuple[object, ...]]:
    wanted = _parsed(version)

    def distance(other: str) -> tuple[object, ...]:
        (major, minor, patch), kind = _parsed(other)
        ours, own_kind = wanted
        of_line = abs(major - ours[0]), abs(minor - ours[1])
        is_later = (major, minor, patch) > ours
        return *of_line, kind != own_kind, abs(patch - ours[2]), is_later, other

    return distance


def _parsed(version: str) -> tuple[tuple[int, int, int], str]:
    """A version's numbers, and what follows them, such as ``-M1`` or ``-jre``."""
    found = _NUMBERED.fullmatch(version)
    return ((int(found[1]), int(found[2]), int(found[3] or 0)), found[4]) if found else ((0, 0, 0), version)
