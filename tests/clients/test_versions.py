"""The clients of a run by their names: in options, in events and in operations."""

from __future__ import annotations

from importlib import metadata

import pytest

from conformance.clients.names import DRIVEN, NAME, clients_in
from conformance.clients.versions import client_versions, libraries_in, versions_of
from conformance.drivers.catalogue import DRIVERS

WIRE = metadata.version("pulsar-conformance")
INSTALLED = metadata.version("pulsar-client")


@pytest.mark.parametrize(
    ("text", "clients"),
    [
        ("3.12.0", ("3.12.0",)),
        ("go:0.19.0,java:4.0.8", ("go:0.19.0", "java:4.0.8")),
        ("pulsar-client,rust:6.9.1", ("pulsar-client", "rust:6.9.1")),
        ("java:4.0.8,pulsar-client", ("java:4.0.8", "pulsar-client")),
        ("driver:./mine --hosts a,b,python:3.12.0", ("driver:./mine --hosts a,b", "python:3.12.0")),
    ],
)
def test_a_list_of_clients_is_split_before_each_client(text: str, clients: tuple[str, ...]) -> None:
    assert clients_in(text) == clients


def test_the_suite_has_drivers_of_the_clients_that_it_knows_by_name() -> None:
    assert sorted(DRIVERS) == sorted(DRIVEN)
    assert all(NAME.fullmatch(one.example) for one in DRIVERS.values())


@pytest.mark.parametrize(
    ("option", "versions"),
    [
        (None, {"official": INSTALLED}),
        ("3.12.0", {"official": "3.12.0"}),
        ("java:4.0.8", {"java": "4.0.8"}),
        ("go:0.19.0,java:4.0.8,pulsar-client", {"go": "0.19.0", "java": "4.0.8", "official": INSTALLED}),
        ("java:4.0.8,java:3.3.6", {"java": "4.0.8", "java:3.3.6": "3.3.6"}),
    ],
)
def test_events_have_the_version_of_each_client(option: str | None, versions: dict[str, str]) -> None:
    assert client_versions(option) == {"wire": WIRE, **versions}


def test_operations_name_the_clients_that_events_have() -> None:
    assert libraries_in(client_versions()) == {}
    clients = [("java", "4.0.8"), ("pulsar-client", INSTALLED), ("java", "3.3.6")]
    assert libraries_in(versions_of(clients)) == {
        "java:4.0.8": "java",
        f"pulsar-client:{INSTALLED}": "official",
        "java:3.3.6": "java",
    }
