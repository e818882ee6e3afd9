"""Tests of choosing ports."""

from __future__ import annotations

import socket

import pytest

from conformance.brokers.startup.ports import HOST, free_ports, is_free


def test_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(is_free(port) for port in ports)


@pytest.mark.parametrize("address", [HOST, "0.0.0.0"])
def test_a_port_in_use_is_not_free(address: str) -> None:
    (port,) = free_ports(1)
    with socket.create_server((address, port)):
        assert not is_free(port)
    assert is_free(port)
