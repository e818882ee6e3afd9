"""The few HTTP requests for starting a broker: whether it is ready.

The typed admin client is in ``conformance.clients``.
"""

from __future__ import annotations

import json
import re

import urllib3

_ANSWER_DEADLINE_S = 2.0
_REDIRECTS = 3
_VERSION = re.compile(r"\d+\.\d+\.\S+")
_TOPIC = "persistent/public/default/is-it-ready"
"""Looked up, never created: a look-up only finds the broker that would own it."""


class Probe:
    """Knows one admin address, ``http://host:port``. No answer and an answer other than 200 are both None."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        # One of several brokers may redirect a look-up to another one.
        retries = urllib3.Retry(total=_REDIRECTS, connect=0, read=0, other=0, raise_on_redirect=False)
        self._http = urllib3.PoolManager(retries=retries, timeout=urllib3.Timeout(total=_ANSWER_DEADLINE_S))

    def version(self) -> str | None:
        """Return the release that the broker reports, e.g. ``4.0.8``; the oldest (2.6, say) report none."""
        answer = self._get("/admin/v2/brokers/version")
        found = None if answer is None else _VERSION.fullmatch(answer.decode("ascii", errors="replace").strip())
        return found[0] if found else None

    def clusters(self) -> list[str] | None:
        """Return the names of the clusters that the broker knows, its own among them."""
        answer = self._get("/admin/v2/clusters")
        names: list[str] | None = None if answer is None else json.loads(answer)
        return names

    def owner(self, topic: str) -> str | None:
        """Return the address, ``pulsar://host:port``, of the broker that owns a topic: ``persistent://t/n/topic``."""
        return _owner(self._get(_look_up(topic)))

    def known_owner(self, topic: str) -> str | None:
        """As :meth:`owner`, but None if this broker does not know it itself, and would ask another one."""
        return _owner(self._get(_look_up(topic), redirect=False))

    def is_ready(self) -> bool:
        """Whether a topic look-up answers and the namespace ``public/default`` exists; the first comes earlier."""
        return (
            self._get(f"/lookup/v2/topic/{_TOPIC}") is not None
            and self._get("/admin/v2/namespaces/public/default") is not None
        )

    def _get(self, path: str, *, redirect: bool = True) -> bytes | None:
        try:
            answer = self._http.request("GET", self._admin_url + path, redirect=redirect)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.data if answer.status == 200 else None


def _look_up(topic: str) -> str:
    return f"/lookup/v2/topic/{topic.replace('://', '/')}"


def _owner(answer: bytes | None) -> str | None:
    found: str | None = None if answer is None else json.loads(answer).get("brokerUrl")
    return found
