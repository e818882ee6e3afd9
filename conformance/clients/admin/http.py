"""The admin API over HTTP: requests with deadlines, answers as bytes or typed values, one kind of error.

It reuses connections and retries nothing, because a failed request may have taken effect. It only tries the next
address if one accepts no connection, and asks once more if the broker closed a connection instead of answering a GET:
it may have closed one that was idle.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProtocolError, SSLError, TimeoutError
from urllib3.util import Timeout

from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.clients.security.credentials import role_of, token_of
from conformance.clients.security.service import Service
from conformance.clients.security.transport import WEB, address, addresses_of, cause_of, tls_context
from conformance.harness_error import HarnessError

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 30.0

_CONNECTIONS: Final = 8
_CAUSES: Final = re.compile("CAUSED BY:</th><td>(.*?)</td>", re.DOTALL)
_MESSAGES: Final = re.compile("MESSAGE:</th><td>(.*?)</td>", re.DOTALL)
_NO_OWNER: Final = "Can't find owner"
"""The error of a request on a topic while no broker is registered as its owner."""
_MOST_REDIRECTS: Final = 5
"""A broker redirects requests on topics of other owners. The caller handles all other errors."""


class AdminError(HarnessError):
    """The broker answered an admin request with an error; ``status``: HTTP's, ``reason``: the broker's message."""

    def __init__(self, request: str, status: int, reason: str, *, role: str | None = None) -> None:
        """``role``: the unauthorized role, if known."""
        message = f"the broker refused {request} with status {status}: {_sentence(reason)}"
        forbidden = is_forbidden(status, reason)
        if forbidden:
            named = _ROLE.search(reason)
            role = named[1] if named else role
            whose = "the suite's role" if role is None else f"role {role!r}"
            message = f"{whose} may not {_deed(request)} on this cluster ({status}: {_sentence(reason)})"
        super().__init__(message, is_forbidden=forbidden)
        self.request = request
        self.status = status
        self.reason = reason
        self.sentence = _sentence(reason)
        """The reason in one sentence, without the broker's stack trace."""

    @property
    def may_pass(self) -> bool:
        """Whether it is an error of the server, as while a topic is being loaded: 5xx, or 412 without an owner."""
        return self.status >= 500 or (self.status == HTTPStatus.PRECONDITION_FAILED and _NO_OWNER in self.reason)


def _sentence(reason: str) -> str:
    """An error's message without the broker's stack trace. Of a page of its web server, the last cause."""
    if causes := _CAUSES.findall(reason) or _MESSAGES.findall(reason):
        return html.unescape(causes[-1].strip())[:400]
    _, separator, message = reason.partition("Message:")
    lines = (message if separator else reason).strip().splitlines() or ["no reason given"]
    return lines[0].strip()[:400]


_DEEDS: Final = (
    (r"PUT tenants/[^/]+", "create tenants"),
    (r"GET tenants(/[^/]+)?", "list tenants"),
    (r"PUT namespaces/([^/]+)/[^/]+", r"create namespaces in the tenant \1"),
    (r"GET brokers/configuration/runtime", "read the brokers' configuration"),
    (r"(POST|DELETE) brokers/configuration/.*", "change dynamic settings"),
)
"""The purposes of the requests that a role is most likely not authorized for."""


_ROLE: Final = re.compile(r"clientAppId \[([^\]]+)\]")
"""The unauthorized role in a broker's error."""


def is_forbidden(status: int, reason: str) -> bool:
    """Whether a role is not authorized. Brokers answer this with 401, too, and then name the role."""
    return status == HTTPStatus.FORBIDDEN or (status == HTTPStatus.UNAUTHORIZED and _ROLE.search(reason) is not None)


def _deed(request: str) -> str:
    for pattern, deed in _DEEDS:
        if found := re.fullmatch(pattern, request):
            return found.expand(deed)
    return request


class AdminHttp:
    """The REST API below ``http://host:port/admin/v2``, at one or several addresses."""

    def __init__(
        self,
        service: Service | str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_error: Callable[[AdminError], None] | None = None,
    ) -> None:
        """``timeout_s`` bounds every request with its answer; ``on_error`` is called with every error."""
        self._on_error = on_error
        self._service = Service.of(service)
        self._addresses = addresses_of(self._service.url, WEB)
        self._is_tls = self._service.is_tls
        options: dict[str, Any] = {}
        if self._is_tls:
            context = tls_context(self._service.security)
            options = {"ssl_context": context, "assert_hostname": None if context.check_hostname else False}
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=False, timeout=Timeout(total=timeout_s), headers={"accept": "*/*"}, **options
        )

    def request(
        self, method: str, path: str, body: object = msgspec.UNSET, query: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Send a request with ``body`` as JSON.

        Raises :class:`AdminError` for an error, :class:`ConnectionLost` without a connection, :class:`NoAnswer` after
        the timeout.
        """
        data = None if body is msgspec.UNSET else msgspec.json.encode(body)
        below = f"/admin/v2/{path}"
        if query:
            below += "?" + "&".join(f"{quote(key)}={quote(value)}" for key, value in query.items())
        response = self._ask_one(method, below, data)
        if response.status >= 300:
            error = self._error(f"{method} {path}", response)
            if self._on_error is not None:
                self._on_error(error)
            raise error
        return response

    def _ask_one(self, method: str, below: str, data: bytes | None) -> urllib3.BaseHTTPResponse:
        """Send to the first address that accepts a connection, beginning with the last that did."""
        for number, (host, port) in enumerate(tuple(self._addresses), start=1):
            url = f"{'https' if self._is_tls else 'http'}://{address(host, port)}{below}"
            try:
                return self._follow(method, url, data)
            except (NewConnectionError, ConnectTimeoutError, SSLError) as error:
                if number < len(self._addresses):
                    self._addresses = [*self._addresses[1:], self._addresses[0]]
                    continue
                raise _lost(method, url, error) from None
            except HTTPError as error:
                raise _lost(method, url, error) from None
        raise AssertionError("there is at least one address")

    def _follow(self, method: str, url: str, data: bytes | None) -> urllib3.BaseHTTPResponse:
        """Send a request and follow redirects; a token never goes from TLS to plaintext."""
        token = token_of(self._service.security)
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token.value}"
        for _ in range(_MOST_REDIRECTS):
            response = self._sent(method, url, data, headers)
            place = response.get_redirect_location()
            if not place:
                return response
            url = urljoin(url, place)
            if self._is_tls and urlsplit(url).scheme != "https":
                raise HarnessError(f"{self._service} sends requests on to {url}, an address without TLS")
        raise HarnessError(f"{self._service} sent {method} {url} on more than {_MOST_REDIRECTS} times")

    def _sent(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        send = partial(self._pool.request, method, url, body=data, headers=headers, redirect=False)
        try:
            return send()
        except ProtocolError:
            if method != "GET":
                raise
            return send()

    def _error(self, request: str, response: urllib3.BaseHTTPResponse) -> AdminError:
        role = None
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            role = role_of(self._service.security)
        return AdminError(request, response.status, _reason(response), role=role)

    def get(self, path: str, kind: type[T]) -> T:
        """GET a value of this type. Raises the same as :meth:`call`."""
        return self.call("GET", path, kind)

    def call(self, method: str, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        """Send a request whose answer is a value of this type.

        Raises the same as :meth:`request`, and :class:`HarnessError` for an invalid answer.
        """
        data = self.request(method, path, query=query).data
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise HarnessError(f"{method} {path}: not the answer of a Pulsar that the suite knows: {error}") from None

    def ask_at(self, service: Service) -> None:
        """Send all later requests to these addresses, with the same security."""
        self._addresses = addresses_of(service.url, WEB)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()


def _lost(method: str, url: str, error: HTTPError) -> ConnectionLost | NoAnswer:
    parts = urlsplit(url)
    timed_out = isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError)
    kind = NoAnswer if timed_out else ConnectionLost
    lost = kind(f"{method} {url}: {cause_of(error, parts.hostname or '', parts.port or 0)}")
    lost.interface = "admin"
    return lost


def topic_path(topic: str) -> str:
    """A topic's path in the REST API. Raises :class:`HarnessError` unless the name is a full topic name."""
    domain, _, rest = topic.partition("://")
    parts = rest.split("/")
    if domain not in ("persistent", "non-persistent") or len(parts) != 3 or not all(parts):
        raise HarnessError(f"not a full topic name (persistent://tenant/namespace/topic): {topic}")
    return "/".join((domain, *(quote(part, safe="") for part in parts)))


def namespace_of(topic: str) -> str:
    """The namespace of a full topic name."""
    return "/".join(topic.split("/")[2:4])


def _reason(response: urllib3.BaseHTTPResponse) -> str:
    """The reason in a broker's error: from JSON, or any other text, truncated."""
    try:
        return msgspec.json.decode(response.data, type=_Reason).reason
    except msgspec.DecodeError:
        return " ".join(response.data[:400].decode(errors="replace").split()) or response.reason or ""


class _Reason(msgspec.Struct):
    reason: str
