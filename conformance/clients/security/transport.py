"""Sockets to brokers: addresses, TCP, TLS, and a sentence for each kind of failure."""

from __future__ import annotations

import functools
import re
import socket
import ssl
from pathlib import Path
from typing import Final

from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError, NewConnectionError, ReadTimeoutError

from conformance.clients.outcomes import ConnectionLost
from conformance.clients.security.service import Security, Service
from conformance.files import CERTIFICATES_AT_MOST_BYTES, content
from conformance.harness_error import HarnessError
from conformance.wait import Deadline

BINARY: Final = ("pulsar", "pulsar+ssl")
WEB: Final = ("http", "https")

_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/,:@\[\]]+):\d{1,5}"
_URL: Final = re.compile(rf"(?P<scheme>[a-z+]+)://(?P<hosts>{_HOST}(?:,{_HOST})*)/?")
_NAME_MISMATCH: Final = (62, 64)
"""OpenSSL's numbers for a certificate of another host name, and of another IP address."""
_NO_TLS_SPOKEN: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


def addresses_of(url: str, schemes: tuple[str, ...] = BINARY) -> list[tuple[str, int]]:
    """Parse ``pulsar://host:port,host:port``. Raises :class:`HarnessError` for anything else."""
    found = _URL.fullmatch(url)
    addresses = []
    if found is not None and found["scheme"] in schemes:
        for text in found["hosts"].split(","):
            host, _, port = text.rpartition(":")
            if int(port) < 2**16:
                addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        written = " or ".join(f"{scheme}://host:port" for scheme in schemes)
        raise HarnessError(f"not a service address that the suite can use ({written}): {url}")
    return addresses


def address(host: str, port: int) -> str:
    """An address as text, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connect(service: Service, deadline: Deadline, schemes: tuple[str, ...] = BINARY) -> socket.socket:
    """Connect to the first address that accepts a connection, with TLS if the scheme has it.

    Raises:
        ConnectionLost: none does; with the reason of the last one.
    """
    targets = addresses_of(service.url, schemes)
    for number, (host, port) in enumerate(targets, start=1):
        try:
            # Share the remaining time with the later addresses.
            return dial(host, port, service, timeout_s=max(deadline.left_s / (len(targets) - number + 1), 0.001))
        except OSError as error:
            if number == len(targets):
                raise ConnectionLost(f"cannot connect to {service}: {cause_of(error, host, port)}") from None
    raise AssertionError("there is at least one address")


def dial(host: str, port: int, service: Service, *, timeout_s: float) -> socket.socket:
    """Connect to one address; each step may take ``timeout_s``. Raises :class:`OSError`, and HarnessError for bad
    files."""
    context = tls_context(service.security) if service.is_tls else None
    sock = socket.create_connection((host, port), timeout=timeout_s)
    if context is None:
        return sock
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


@functools.lru_cache
def tls_context(security: Security) -> ssl.SSLContext:
    """The TLS context. Raises :class:`HarnessError` for invalid files."""
    if security.trust_certs_file is not None:
        _demand_readable(security.trust_certs_file, "the trusted certificates")
    try:
        context = ssl.create_default_context(cafile=security.trust_certs_file)
    except (OSError, ssl.SSLError):
        raise HarnessError(f"{security.trust_certs_file} holds no certificates in PEM that could be trusted") from None
    if security.allow_insecure or not security.verify_hostname:
        context.check_hostname = False
    if security.allow_insecure:
        context.verify_mode = ssl.CERT_NONE
    if security.certificate_file is not None:
        _present(context, security)
    return context


@functools.lru_cache
def issuer_context(security: Security) -> ssl.SSLContext:
    """The TLS context for a token's issuer: it also trusts the system's CAs, and has no client certificate."""
    context = ssl.create_default_context()
    if security.trust_certs_file is not None:
        tls_context(Security(trust_certs_file=security.trust_certs_file))  # says what is wrong with the file
        context.load_verify_locations(cafile=security.trust_certs_file)
    return context


def _demand_readable(file: str, what: str) -> None:
    """Refuse what OpenSSL would read for ever: a pipe, a device. Raises HarnessError."""
    content(Path(file), what, at_most_bytes=CERTIFICATES_AT_MOST_BYTES)


def _present(context: ssl.SSLContext, security: Security) -> None:
    """Load the client certificate."""

    def refuse() -> str:
        raise HarnessError(f"the key {security.key_file} is encrypted: give one without a passphrase")

    assert security.certificate_file is not None
    _demand_readable(security.certificate_file, "the client certificate")
    if security.key_file is not None:
        _demand_readable(security.key_file, "the key")
    try:
        context.load_cert_chain(security.certificate_file, security.key_file, password=refuse)
    except OSError as error:  # ssl.SSLError is one
        why = (
            error.strerror if not isinstance(error, ssl.SSLError) else "they are not in PEM, or do not belong together"
        )
        raise HarnessError(
            f"the client certificate {security.certificate_file} and its key {security.key_file} are of no use: {why}"
        ) from None


def cause_of(error: BaseException, host: str, port: int) -> str:
    """The reason of a failed connection, as a sentence without a full stop."""
    at = address(host, port)
    match _root(error):
        case socket.gaierror():
            return f"the host name {host} is unknown"
        case ConnectionRefusedError():
            return f"nothing listens at {at} (connection refused)"
        case ssl.SSLCertVerificationError(verify_code=code) if code in _NAME_MISMATCH:
            return (
                f"the certificate of {at} is for another host name; use a name that it holds, "
                "or --tls-skip-hostname-verification"
            )
        case ssl.SSLCertVerificationError(verify_message=message):
            return f"the certificate of {at} is not trusted ({message}); name its CA with --tls-trust-certs"
        case ssl.SSLError(reason=reason) if reason in _NO_TLS_SPOKEN:
            return f"{at} does not speak TLS"
        case ssl.SSLError(reason=reason) if reason and "CERTIFICATE_REQUIRED" in reason:
            return f"{at} asks for a client certificate; give it with --tls-certificate and --tls-key"
        case ssl.SSLError() as other:
            return f"the TLS handshake with {at} failed ({other.reason or other})"
        case TimeoutError() | ConnectTimeoutError() | ReadTimeoutError():
            return f"{at} does not answer"
        case OSError() as other:
            return f"{at} cannot be reached ({other.strerror or other})"
        case other:
            return f"{at} cannot be reached ({other})"


def _root(error: BaseException) -> BaseException:
    if isinstance(error, MaxRetryError) and error.reason is not None:
        return _root(error.reason)
    is_timeout = isinstance(error, ReadTimeoutError | ConnectTimeoutError) and not isinstance(error, NewConnectionError)
    if isinstance(error, HTTPError) and not is_timeout:
        inner = error.__cause__ or error.__context__ or next((it for it in error.args if isinstance(it, OSError)), None)
        return error if inner is None else _root(inner)
    return error
