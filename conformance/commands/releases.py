"""``releases``: lists releases and how each is obtained."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from packaging.version import Version
from rich.console import Console
from rich.text import Text

from conformance.brokers.installation.artifacts import is_published
from conformance.brokers.installation.assembly import broker_of
from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.installation.record import origin_of
from conformance.brokers.name import SEVERAL_VERSIONS, STANDALONE, VERSION
from conformance.brokers.release import distribution_of
from conformance.brokers.tried import How, Tried, tried
from conformance.harness_error import HarnessError
from conformance.known.versions import version_in
from conformance.report.console import show_table


class Available(msgspec.Struct, frozen=True, kw_only=True):
    """A release, how it is obtained, and whether the cache has it."""

    version: str
    how: How
    is_cached: bool
    note: str = ""


def releases(versions: Sequence[str]) -> list[Available]:
    """These versions, looked up at Maven Central; without any, those that were tried or are in the cache.

    Raises:
        HarnessError: Maven Central cannot be asked.
    """
    # One that was not available may be now: Maven Central is asked for it again if it is named.
    known = {one.version: one for one in tried() if not versions or one.how != "not available"}
    cached = {folder.name for folder in cache_folder("releases").iterdir() if (folder / "lib").is_dir()}
    wanted = versions or sorted(known.keys() | cached, key=order)
    return [_available(version, known.get(version), is_cached=version in cached) for version in wanted]


def demand_published(broker: str) -> None:
    """Check that the releases that a broker's name has can be had. Nothing is fetched.

    Raises:
        HarnessError: one cannot, or Maven Central cannot be asked.
    """
    plain = broker.removeprefix(STANDALONE)
    if not (VERSION.fullmatch(plain) or SEVERAL_VERSIONS.fullmatch(plain)):
        return
    for one in releases(plain.split(",")):
        if one.how == "not available" and not one.is_cached:
            raise HarnessError(f"There is no Pulsar {one.version} to be had: Maven Central has no part of it.")


def list_releases(found: Sequence[Available], out: Console) -> None:
    rows = [(one.version, one.how, "in the cache" if one.is_cached else "-", one.note or "-") for one in found]
    headings = ("Release", "Obtained", "Cache", "Note")
    show_table(out, [tuple(map(Text, row)) for row in rows], justify=("left",) * 4, headings=headings)


def as_json(found: Sequence[Available]) -> str:
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def _available(version: str, known: Tried | None, *, is_cached: bool) -> Available:
    if known is not None:
        return Available(version=version, how=known.how, is_cached=is_cached, note=_note(known))
    if is_cached:
        is_assembled = origin_of(cache_folder("releases") / version) is not None
        return Available(version=version, how="assembled" if is_assembled else "tarball", is_cached=True)
    if is_published(distribution_of(version)):
        return Available(version=version, how="tarball", is_cached=False)
    if is_published(broker_of(version)):
        note = "not tried: an artifact that it needs may be missing"
        return Available(version=version, how="assembled", is_cached=False, note=note)
    return Available(
        version=version, how="not available", is_cached=False, note="it cannot be had: Maven Central has no part of it"
    )


def _note(one: Tried) -> str:
    if one.why is not None:
        return one.why
    return "" if one.has_own_configuration else "with the defaults of its code"


def order(version: str) -> tuple[bool, Version, str]:
    """The sort key of a release; a name that is no version is last."""
    found = version_in(version)
    return found is None, found or Version("0"), version
