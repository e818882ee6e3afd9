"""One admin address over HTTP: requests with deadlines, answers as bytes or typed values, one kind of error.

Connections are kept and used again. Nothing is retried: whether a request took effect is for the caller to find out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, TimeoutError
from urllib3.util import Retry, Timeout

from conformance.systems.outcomes import ConnectionLost, NoAnswer
from conformance.trouble import Trouble

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 30.0

_CONNECTIONS: Final = 8
_REDIRECTS: Final = Retry(total=None, connect=0, read=0, status=0, other=0, redirect=5)
"""A broker sends on what another one owns; anything else that goes wrong is the caller's to know."""


class AdminError(Trouble):
    """The broker answered an admin request with an error; ``status`` is HTTP's, ``reason`` the broker's words."""

    def __init__(self, request: str, status: int, reason: str) -> None:
        super().__init__(f"the broker refused {request} with status {status}: {_sentence(reason)}")
        self.status = status
        self.reason = reason


def _sentence(reason: str) -> str:
    """What an error says, without the trace that brokers put behind it."""
    _, message, said = reason.partition("Message:")
    lines = (said if message else reason).strip().splitlines() or ["no reason given"]
    return lines[0].strip()[:400]


class AdminHttp:
    """The REST interface below ``http://host:port/admin/v2``."""

    def __init__(self, admin_url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """``timeout_s`` bounds every request, from its sending to its answer."""
        self._base = f"{admin_url.rstrip('/')}/admin/v2"
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=_REDIRECTS, timeout=Timeout(total=timeout_s), headers={"accept": "*/*"}
        )

    def request(
        self, method: str, path: str, body: object = msgspec.UNSET, query: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Make a request; ``body`` is sent as JSON where there is one.

        Raises :class:`AdminError` for an error, :class:`ConnectionLost` where nobody answers, :class:`NoAnswer` when it
        takes too long.
        """
        url = f"{self._base}/{path}"
        data = None if body is msgspec.UNSET else msgspec.json.encode(body)
        headers = {"content-type": "application/json"}
        if query:
            url += "?" + "&".join(f"{quote(key)}={quote(value)}" for key, value in query.items())
        try:
            response = self._pool.request(method, url, body=data, headers=headers)
        except HTTPError as error:
            cause = error.reason if isinstance(error, MaxRetryError) else error
            timed_out = isinstance(cause, TimeoutError) and not isinstance(cause, NewConnectionError)
            kind = NoAnswer if timed_out else ConnectionLost
            raise kind(f"{method} {url}: {cause}") from None
        if response.status >= 300:
            raise AdminError(f"{method} {path}", response.status, _reason(response))
        return response

    def get(self, path: str, kind: type[T]) -> T:
        """Ask for a value of this type; errors as for :meth:`call`."""
        return self.call("GET", path, kind)

    def call(self, method: str, path: str, kind: type[T]) -> T:
        """Make a request that is answered with a value of this type.

        Errors as for :meth:`request`, and :class:`Trouble` where the answer is nothing of the kind.
        """
        data = self.request(method, path).data
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise Trouble(f"{method} {path}: not the answer of a Pulsar that the suite knows: {error}") from None

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.clear()


def topic_path(topic: str) -> str:
    """Give a topic's place in the REST interface; raise :class:`Trouble` for what is not a full topic name."""
    domain, _, rest = topic.partition("://")
    parts = rest.split("/")
    if domain not in ("persistent", "non-persistent") or len(parts) != 3 or not all(parts):
        raise Trouble(f"not a full topic name (persistent://tenant/namespace/topic): {topic}")
    return "/".join((domain, *(quote(part, safe="") for part in parts)))


def _reason(response: urllib3.BaseHTTPResponse) -> str:
    """What the broker says of an error: JSON with a reason, or any other text, which is cut."""
    try:
        return msgspec.json.decode(response.data, type=_Reason).reason
    except msgspec.DecodeError:
        return " ".join(response.data[:400].decode(errors="replace").split()) or response.reason or ""


class _Reason(msgspec.Struct):
    reason: str
