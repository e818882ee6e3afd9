"""The credentials of a client: a current token from the user's source.

A token file is read on each use, because it may be renewed. An OAuth2 token is fetched once for all clients of a
process, and again shortly before it expires. Otherwise the thousands of connections of a run would each send a request
to the identity provider. So pulsar-client gets the token, not the issuer.
"""

from __future__ import annotations

import base64
import threading
import time
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from conformance.clients.security.service import OAuth2, Secret, Security
from conformance.clients.security.transport import cause_of, issuer_context
from conformance.files import SECRET_AT_MOST_BYTES, content
from conformance.harness_error import HarnessError

FETCH_TIMEOUT_S: Final = 2.5
RENEWED_EARLY_SHARE: Final = 0.1
"""The remaining share of a token's lifetime at which it is fetched again."""
_SHORTEST_LIFETIME_S: Final = 10.0


def token_of(security: Security) -> Secret | None:
    """The current token; None without token authentication.

    Raises:
        HarnessError: the file cannot be read or is empty, or the issuer returns no token.
    """
    if security.token is not None:
        return security.token
    if security.token_file is not None:
        return _read(security.token_file)
    return None if security.oauth2 is None else _fetcher.token(security.oauth2, security)


def auth_data_of(security: Security) -> bytes:
    """The data of CONNECT and AUTH_RESPONSE; empty with a client certificate. Raises the same as token_of."""
    token = token_of(security)
    return b"" if token is None else token.value.encode()


def role_of(security: Security) -> str | None:
    """The role in a token's claim ``sub``, Pulsar's default; None if unknown."""
    token = token_of(security)
    parts = [] if token is None else token.value.split(".")
    if len(parts) != 3:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="), type=_Claims).sub
    except (ValueError, msgspec.MsgspecError):
        return None


def _read(file: str) -> Secret:
    try:
        text = content(Path(file), "the token's file", at_most_bytes=SECRET_AT_MOST_BYTES).decode().strip()
    except UnicodeDecodeError:
        raise HarnessError(f"cannot read the token's file {file}: it is no text") from None
    if not text or any(character.isspace() for character in text):
        raise HarnessError(f"the token's file {file} must hold one token and nothing else")
    return Secret(text)


class _Claims(msgspec.Struct):
    sub: str | None = None


class _CredentialsFile(msgspec.Struct):
    client_id: str
    client_secret: str


class _Metadata(msgspec.Struct):
    token_endpoint: str


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


class _Fetcher:
    """A cache of OAuth2 access tokens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[OAuth2, tuple[float, Secret]] = {}

    def token(self, asked: OAuth2, security: Security) -> Secret:
        with self._lock:
            until_s, token = self._kept.get(asked, (0.0, None))
            if token is None or time.monotonic() >= until_s:
                answer = _fetch(asked, security)
                lifetime_s = max(_SHORTEST_LIFETIME_S, answer.expires_in or _SHORTEST_LIFETIME_S)
                token = Secret(answer.access_token)
                self._kept[asked] = (time.monotonic() + lifetime_s * (1 - RENEWED_EARLY_SHARE), token)
            return token


_fetcher: Final = _Fetcher()


def _fetch(asked: OAuth2, security: Security) -> _Answer:
    """Exchange client credentials for an access token, at the token endpoint in the issuer's metadata."""
    credentials = _credentials(asked.credentials_file)
    http = urllib3.PoolManager(
        retries=False, timeout=urllib3.Timeout(total=FETCH_TIMEOUT_S), ssl_context=issuer_context(security)
    )
    with http:
        metadata = asked.issuer_url.rstrip("/") + "/.well-known/openid-configuration"
        endpoint = _decoded(_request(http, "GET", metadata), metadata, _Metadata).token_endpoint
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
        }
        form |= {name: text for name, text in (("audience", asked.audience), ("scope", asked.scope)) if text}
        return _decoded(_request(http, "POST", endpoint, urlencode(form)), endpoint, _Answer)


def _credentials(file: str) -> _CredentialsFile:
    path = Path(file.removeprefix("file://"))
    try:
        written = content(path, "the OAuth2 credentials", at_most_bytes=SECRET_AT_MOST_BYTES)
        return msgspec.json.decode(written, type=_CredentialsFile)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise HarnessError(
            f"the OAuth2 credentials {file} are no JSON object with client_id and client_secret"
        ) from None


def _request(http: urllib3.PoolManager, method: str, url: str, form: str | None = None) -> bytes:
    headers = {"accept": "application/json"}
    if form is not None:
        headers["content-type"] = "application/x-www-form-urlencoded"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HarnessError(f"not the URL of an OAuth2 issuer: {url}")
    try:
        answer = http.request(method, url, body=form, headers=headers)
    except HTTPError as error:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        raise HarnessError(f"no OAuth2 token from {url}: {cause_of(error, parts.hostname, port)}") from None
    if answer.status != 200:
        raise HarnessError(
            f"no OAuth2 token: {method} {url} was answered with status {answer.status}{_why(answer.data)}"
        )
    return answer.data


_T = TypeVar("_T")


def _decoded(data: bytes, url: str, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        raise HarnessError(f"no OAuth2 token: {url} does not answer as an OAuth2 issuer does") from None


class _Refusal(msgspec.Struct):
    error: str
    error_description: str = ""


def _why(data: bytes) -> str:
    """An issuer's reason for a refusal, without the secret."""
    try:
        refusal = msgspec.json.decode(data, type=_Refusal)
    except msgspec.MsgspecError:
        return ""
    return f": {refusal.error} {refusal.error_description}".rstrip()[:300]
