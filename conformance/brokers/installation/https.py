"""Fetches over HTTPS as the rest of the machine does: with the system's certificates, and through the usual proxies.

An error message includes what to do about it. :mod:`conformance.brokers.installation.artifacts` decides what to
fetch, and verifies it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

import requests
import truststore
from requests.adapters import HTTPAdapter
from requests.exceptions import HTTPError, ProxyError, SSLError, Timeout
from urllib3.util import Retry

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE

_PATIENCE = Retry(total=None, connect=0, read=0, redirect=5, status=3, other=0, status_forcelist=[429])
"""Retries after the delay that a server requests; the caller handles all other errors."""

_OF_A_PROXY = frozenset({401, 403, 407})
"""Statuses that come from a proxy, not from a repository of public files."""


class _SystemTrust(HTTPAdapter):
    """Trusts the system's CAs and those of requests."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT), **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        kwargs.setdefault("ssl_context", truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return super().proxy_manager_for(proxy, **kwargs)


def session() -> requests.Session:
    """Return a session that respects the usual variables for proxies and certificates."""
    made = requests.Session()
    made.mount("https://", _SystemTrust(max_retries=_PATIENCE))
    return made


def why(error: OSError, environment: Mapping[str, str] = os.environ) -> str:
    """One line on why a file could not be fetched, and what helps."""
    match error:
        case SSLError():
            return (
                f"the certificate is not trusted ({_innermost(error)}); add your organisation's certificate to the "
                "system's, or name its file in SSL_CERT_FILE"
            )
        case ProxyError():
            return f"the proxy {_proxy(environment)} does not let it through ({_innermost(error)}); check HTTPS_PROXY"
        case HTTPError(response=response) if response is not None and response.status_code in _OF_A_PROXY:
            return f"{error}; if a proxy says so, check HTTPS_PROXY and what it permits"
        case HTTPError():
            return f"{error}; try again later"
        case Timeout() | requests.ConnectionError():
            return (
                f"{_innermost(error)}; behind a proxy set HTTPS_PROXY, without a network run `pulsar-conformance "
                f"fetch` where there is one and name a copy of its cache in {ENVIRONMENT_VARIABLE}"
            )
        case _:
            return str(error)


def _proxy(environment: Mapping[str, str]) -> str:
    """The proxy's address without its password."""
    given = (environment.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"))
    address = next(filter(None, given), "")
    return address.rpartition("@")[2].rpartition("/")[2] or "in use"


def _innermost(error: BaseException) -> str:
    """The innermost reason of a library's error, without the address."""
    while (inner := _below(error)) is not None:
        error = inner
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return message.strip().rstrip(".") or type(error).__name__


def _below(error: BaseException) -> BaseException | None:
    """The cause of an error; urllib3 has it as ``reason``, requests among the arguments."""
    candidates = (error.__cause__, error.__context__, getattr(error, "reason", None), *error.args)
    return next((inner for inner in candidates if isinstance(inner, BaseException)), None)
