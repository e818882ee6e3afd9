"""Chooses free TCP ports for brokers, which must listen on the same ones after a restart."""

from __future__ import annotations

import itertools
import random
import socket

from conformance.harness_error import HarnessError

HOST = "127.0.0.1"
"""The host of the suite's own brokers, which is not reachable from outside."""

_RANGE = range(12_000, 32_000)
"""Below the ports that systems hand out to outgoing connections: one of those could take the port of a broker while
that is down for a restart."""

_TRIES = 200


def free_ports(count: int) -> list[int]:
    """Return that many different ports on which nothing listens.

    Raises:
        HarnessError: hardly any port is free.
    """
    chooser = random.SystemRandom()  # not the seeded one: two runs with one seed must not meet
    free = list(itertools.islice(filter(is_free, chooser.sample(_RANGE, _TRIES)), count))
    if len(free) < count:
        raise HarnessError(f"Only {len(free)} of {_TRIES} ports tried on {HOST} are free.")
    return free


def is_free(port: int) -> bool:
    """Whether a process could listen on this port now, on any of the machine's addresses."""
    for address in (HOST, ""):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((address, port))
            except OSError:
                return False
    return True
