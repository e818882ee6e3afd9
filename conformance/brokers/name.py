"""The names of brokers, as ``--broker`` takes them: which kind one is, and which release a line stands for.

Nothing is fetched or started to read a name; :mod:`conformance.brokers.select` makes the broker.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from conformance.clients.security.transport import BINARY, WEB, addresses_of
from conformance.harness_error import HarnessError

STANDALONE: Final = "standalone:"
CONTAINER: Final = "container:"
DISTRIBUTION: Final = "dist:"
CANDIDATE: Final = "rc:"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:-[A-Za-z0-9.-]+)?")
SEVERAL_VERSIONS: Final = re.compile(rf"{VERSION.pattern}(?:,{VERSION.pattern})+")
_LATEST: Final = "latest"
_LINE: Final = re.compile(rf"\d+\.\d+|{_LATEST}")
_RELEASES: Final = re.compile(rf"(?:{VERSION.pattern}|{_LINE.pattern})(?:,(?:{VERSION.pattern}|{_LINE.pattern}))*")
_SCHEME: Final = re.compile(r"\b(pulsar|http)(\+ssl|s)?://")
_CLUSTER: Final = re.compile(r"(pulsar(?:\+ssl)?://\S+),(https?://\S+)")


def is_running_cluster(text: str) -> bool:
    """Whether ``text`` names a running cluster."""
    return _CLUSTER.fullmatch(text) is not None


def cluster_addresses(text: str) -> tuple[str, str] | None:
    """The service address and the admin address of a running cluster; None if a text is not both."""
    found = _CLUSTER.fullmatch(text)
    if found is None:
        return None
    service_url, admin_url = found[1].rstrip("/"), found[2].rstrip("/")
    try:
        addresses_of(service_url, BINARY)
        addresses_of(admin_url, WEB)
    except HarnessError:
        return None
    return service_url, admin_url


def demand_name(text: str) -> None:
    """Check that a text has the form of a name of a broker.

    Raises:
        HarnessError: it names none.
    """
    demand_addresses(text)
    plain = text.removeprefix(STANDALONE)
    if cluster_addresses(text) or (_RELEASES.fullmatch(plain) and ("," not in plain or plain == text)):
        return
    kind, colon, place = plain.partition(":")
    match kind + colon:
        case "dist:" | "rc:" if place:
            return
        case "container:" if place and plain == text:
            return
        case _:
            raise no_broker(text)


def demand_place(text: str) -> None:
    """Check that there is something at the path of a build or of a candidate, without a look at the network.

    Raises:
        HarnessError: there is nothing, or its address may not be fetched.
    """
    kind, _, place = text.removeprefix(STANDALONE).partition(":")
    if kind == "dist" and not Path(place).expanduser().exists():
        raise HarnessError(f"There is no distribution at {place}: no such file or folder.")
    if kind == "rc":
        from conformance.brokers.installation.candidate import demand_location

        demand_location(place)


def demand_addresses(text: str) -> None:
    """Check that a text with an address has both, so that it names a running cluster.

    Raises:
        HarnessError: one is missing or malformed.
    """
    kinds = {found[1]: found[2] is not None for found in _SCHEME.finditer(text)}
    is_candidate = text.removeprefix(STANDALONE).startswith(CANDIDATE)
    if not kinds or is_candidate or cluster_addresses(text) is not None:
        return
    match tuple(kinds.items()):
        case [("pulsar", is_tls)]:
            admin = "https://host:8443" if is_tls else "http://host:8080"
            raise HarnessError(
                f"{text!r} has no admin address, which a running cluster needs, too: write {text},{admin}."
            )
        case [("http", is_tls)]:
            service = "pulsar+ssl://host:6651" if is_tls else "pulsar://host:6650"
            raise HarnessError(
                f"{text!r} has no service address, which a running cluster needs, too: write {service},{text}."
            )
        case _:
            raise no_broker(text)


def no_broker(text: str) -> HarnessError:
    return HarnessError(
        f"{text!r} names no broker: write a version (4.0.8), a line (4.0) or latest, dist:PATH, rc:URL, "
        "standalone:VERSION, container:TAG, container:IMAGE, or the addresses of a running one "
        "(pulsar://host:port,http://host:port)."
    )


def exact_name(text: str) -> str:
    """The name with the newest release that can be had for a line (``4.0``) or ``latest``; other names are exact.

    Raises:
        HarnessError: there is none, or Maven Central cannot be asked.
    """
    plain = text.removeprefix(STANDALONE)
    if not _RELEASES.fullmatch(plain) or VERSION.fullmatch(plain) or SEVERAL_VERSIONS.fullmatch(plain):
        return text
    return text[: len(text) - len(plain)] + ",".join(map(_exact_version, plain.split(",")))


@cache
def _exact_version(text: str) -> str:
    if not _LINE.fullmatch(text):
        return text
    from conformance.brokers.installation.newest import releases_of_line
    from conformance.brokers.release import fetched_release

    last: HarnessError | None = None
    for version in releases_of_line(None if text == _LATEST else text):
        try:
            return fetched_release(version).version
        except HarnessError as harness_error:
            last = harness_error
    assert last is not None
    raise last
