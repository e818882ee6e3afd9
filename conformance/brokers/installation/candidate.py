"""Fetches a release candidate: the tarball at an address, or in a file, that matches the ``.sha512`` beside it.

The address is the user's; none stands here. Signatures (``.asc``) are not verified.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from conformance.brokers.installation.cache import cache_folder, sole_maker
from conformance.brokers.installation.download import NotThere, checksum_beside, digest_of, download
from conformance.harness_error import HarnessError

_LABEL: Final = re.compile(r"\d+\.\d+\.\d+-((?:candidate|rc)-?\d+)")
_SHA512: Final = "sha512"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def label_of(location: str) -> str:
    """What tells candidates of a release apart, from a location such as ``…/pulsar-5.0.2-candidate-1/…``."""
    found = _LABEL.search(location)
    return found[1] if found else "candidate"


def demand_location(location: str) -> None:
    """Check that a location is a file that is there, or an address that may be fetched.

    Raises:
        HarnessError: it is not.
    """
    address = urlsplit(location)
    if not address.netloc:
        if not _file_at(location).is_file():
            raise HarnessError(f"There is no candidate at {_file_at(location)}: no such file.")
    elif address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
        raise HarnessError(f"A candidate is fetched over https only, and {location} is not.")


def _file_at(location: str) -> Path:
    return Path(location.removeprefix("file://")).expanduser().absolute()


def candidate_tarball(location: str) -> Path:
    """Return the verified tarball of a candidate: fetched, unless the cache has the one of the present checksum.

    Raises:
        HarnessError: there is none, it has no checksum beside it or another one, or it cannot be fetched.
    """
    demand_location(location)
    address = urlsplit(location)
    if not address.netloc:
        file = _file_at(location)
        _verify(file, location)
        return file
    folder = cache_folder("candidates", hashlib.sha256(location.encode()).hexdigest()[:16])
    tarball = folder / (Path(address.path).name or "candidate.tar.gz")
    with sole_maker(tarball) as workshop:
        made = workshop / tarball.name
        checksum = made.with_name(f"{made.name}.{_SHA512}")
        _fetch(f"{location}.{_SHA512}", checksum, is_shown=False)
        published = checksum_beside(made)
        if published is None or not tarball.exists() or digest_of(tarball, _SHA512) != published.digest:
            _fetch(location, made, is_shown=True)
            _verify(made, location)
            made.replace(tarball)
    return tarball


def _fetch(address: str, destination: Path, *, is_shown: bool) -> None:
    host = urlsplit(address).netloc.rpartition("@")[2]
    try:
        download(address, destination, source=host, is_shown=is_shown)
    except NotThere:
        raise HarnessError(f"There is no {address}.") from None


def _verify(file: Path, location: str) -> None:
    published = checksum_beside(file)
    if published is None or published.kind != _SHA512:
        raise HarnessError(f"There is no {location}.{_SHA512}, with which a candidate is verified.")
    actual = digest_of(file, _SHA512)
    if actual != published.digest:
        raise HarnessError(
            f"{location} is not the file of {file.name}.{_SHA512}: its checksum is {actual} instead of "
            f"{published.digest}."
        )
