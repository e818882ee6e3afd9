"""Finds the newest release of a line, such as ``4.0``, or of all, by asking Maven Central for the files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from conformance.brokers.installation.artifacts import Coordinates, is_published, listed_versions
from conformance.brokers.installation.cache import cache_folder
from conformance.harness_error import HarnessError

_STABLE: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_AHEAD: Final = 5
"""So many patches after the newest known one are asked for, and so many of lines after the newest known line."""
_ASKED_AT_ONCE: Final = 8

Number = tuple[int, int, int]


def releases_of_line(line: str | None) -> list[str]:
    """The stable releases with a published broker, of one line or of all, the newest first.

    The repository's list lacks some, so later patches and lines are asked for. If it cannot be asked, the releases in
    the cache count.

    Raises:
        HarnessError: it cannot be asked, and the cache has no such release.
    """
    broker = Coordinates(group="org.apache.pulsar", name="pulsar-broker", version="")
    try:
        listed = _of_line(listed_versions(broker), line)
        found = {*listed, *_published_after(max(listed, default=None), line)}
    except HarnessError:
        found = set(_of_line((folder.name for folder in cache_folder("releases").iterdir() if folder.is_dir()), line))
        if not found:
            raise
    if not found:
        raise HarnessError(f"Maven Central has no release {line}.x of Pulsar.")
    return [_text(number) for number in sorted(found, reverse=True)]


def _of_line(versions: Iterator[str] | tuple[str, ...], line: str | None) -> list[Number]:
    stable = [(int(found[1]), int(found[2]), int(found[3])) for found in map(_STABLE.fullmatch, versions) if found]
    return [number for number in stable if line is None or _text(number).startswith(f"{line}.")]


def _published_after(newest: Number | None, line: str | None) -> list[Number]:
    """Releases that are not listed: the repository is asked for each, until none of the next ones is there."""
    if newest is None:
        if line is None:
            return []
        major, minor = map(int, line.split("."))
        newest = (major, minor, -1)
    found: list[Number] = []
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as asking:
        while True:
            candidates = list(_next(newest, within=line))
            there = [
                number
                for number, is_there in zip(candidates, asking.map(_is_there, candidates), strict=True)
                if is_there
            ]
            found += there
            if not there:
                return found
            newest = max(there)


def _next(newest: Number, *, within: str | None) -> Iterator[Number]:
    major, minor, patch = newest
    yield from ((major, minor, patch + step) for step in range(1, _AHEAD + 1))
    if within is None:
        yield from ((major, minor + 1, step) for step in range(_AHEAD))
        yield from ((major + 1, 0, step) for step in range(_AHEAD))


def _is_there(number: Number) -> bool:
    return is_published(Coordinates(group="org.apache.pulsar", name="pulsar-broker", version=_text(number)))


def _text(number: Number) -> str:
    return ".".join(map(str, number))
