"""Diagnoses within three seconds why a running cluster cannot be used, with a sentence for each cause.

It tries both addresses at the same time, with all hosts. It then probes failed ports with other protocols (TLS, HTTP,
Pulsar's other protocol), to distinguish a port of another protocol from one that does not answer.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.security.credentials import role_of, token_of
from conformance.clients.security.service import NO_SECURITY, Security, Service
from conformance.clients.security.transport import BINARY, WEB, address, addresses_of, cause_of, dial, tls_context
from conformance.clients.wire.connection import command_of, connect_command
from conformance.clients.wire.frames import FrameDecoder, MalformedFrame, encode_frame
from conformance.harness_error import HarnessError
from conformance.wait import Deadline

ANSWER_S: Final = 1.5
"""The time for one host: name resolution, connection, TLS and the first answer."""
SECOND_LOOK_S: Final = 0.35
"""The time for each probe with another protocol."""
NO_LONGER_S: Final = 2.6

VERSION_PATH: Final = "/admin/v2/brokers/version"
_VERSION: Final = re.compile(rb"\d+\.\d+\.\S+")
_RECEIVE_BYTES: Final = 64 * 1024

Attempt = Callable[[str, int, Service, Deadline], str | None]
"""Tries one host; returns its problem, or None."""


def require_usable(service: Service, admin: Service) -> None:
    """Check that both addresses answer and authorize the suite.

    Raises:
        HarnessError: one sentence for each address that cannot be used.
    """
    # Read the files first: an invalid one is not the cluster's fault.
    tls_context(service.security)
    token_of(service.security)
    attempts = (
        [(service, host, port, _try_binary) for host, port in addresses_of(service.url, BINARY)],
        [(admin, host, port, _try_admin) for host, port in addresses_of(admin.url, WEB)],
    )
    answers = _all_at_once([one for group in attempts for one in group])
    sentences: list[str] = []
    for group in attempts:
        wrong = [answers[one] for one in group]
        if None not in wrong:
            sentences += [text for text in wrong if text is not None]
    if sentences:
        raise HarnessError("; ".join(dict.fromkeys(sentences)))


_Case = tuple[Service, str, int, Attempt]


def _all_at_once(cases: list[_Case]) -> dict[_Case, str | None]:
    """Try all of them. A thread that hangs, for example in the resolver, is abandoned."""
    answers: dict[_Case, str | None] = {case: f"{address(case[1], case[2])} does not answer" for case in cases}

    def run(case: _Case) -> None:
        service, host, port, attempt = case
        answers[case] = attempt(host, port, service, Deadline.after(ANSWER_S))

    threads = [threading.Thread(target=run, args=(case,), daemon=True) for case in cases]
    deadline = Deadline.after(NO_LONGER_S)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline.left_s))
    return dict(answers)


# --------------------------------------------------------------------------------------------------- the binary address


def _try_binary(host: str, port: int, service: Service, deadline: Deadline) -> str | None:
    at = address(host, port)
    try:
        with dial(host, port, service, timeout_s=max(0.1, deadline.left_s)) as sock:
            answer = _shake_hands(sock, service.security, deadline)
    except OSError as error:
        other = None if _is_plain(error) else _other_than_expected(host, port, service)
        return other or cause_of(error, host, port)
    match answer:
        case pb.BaseCommand(type=pb.BaseCommand.CONNECTED):
            return None
        case pb.BaseCommand(type=pb.BaseCommand.ERROR):
            return _refused(at, service.security, answer.error.message)
        case pb.BaseCommand():
            return f"{at} asks for an authentication that the suite does not have"
        case _:
            return _other_than_expected(host, port, service) or _said(at, answer)


def _shake_hands(sock: socket.socket, security: Security, deadline: Deadline) -> pb.BaseCommand | bytes | None:
    """Send CONNECT; returns the answer, bytes that are no frame (empty if closed), or None without an answer."""
    hello = encode_frame(command_of(connect_command(security)))
    decoder, received = FrameDecoder(), b""
    while not deadline.passed:
        sock.settimeout(max(0.05, deadline.left_s))
        try:
            sock.sendall(hello)
            hello = b""
            data = sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return None
        except ConnectionError:
            return received
        received += data
        if not data:
            return received
        try:
            for frame in decoder.feed(data):
                return frame.command
        except MalformedFrame:
            return received
    return None


def _said(at: str, answer: bytes | None) -> str:
    match answer:
        case None:
            return f"{at} takes connections and does not answer"
        case b"":
            return f"{at} is not Pulsar's binary protocol: it closes the connection"
        case answer if answer.startswith(b"HTTP/"):
            return _http_instead(at)
        case _:
            return f"{at} is not Pulsar's binary protocol"


def _other_than_expected(host: str, port: int, service: Service) -> str | None:
    """The protocol of the binary port instead; None if unknown."""
    at = address(host, port)
    if service.is_tls:
        if _speaks_pulsar(host, port):
            return f"{at} speaks Pulsar's protocol without TLS: write pulsar:// instead of pulsar+ssl://"
        if _speaks_http(host, port):
            return _http_instead(at)
        return None
    if _speaks_tls(host, port):
        return f"{at} speaks TLS: write pulsar+ssl:// instead of pulsar://"
    if _speaks_http(host, port):
        return _http_instead(at)
    return None


def _http_instead(at: str) -> str:
    return f"{at} speaks HTTP and not Pulsar's binary protocol: is it the admin address?"


def _is_plain(error: OSError) -> bool:
    """Whether the error is final, so that no probe can add anything."""
    return isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError)


def _refused(at: str, security: Security, reason: str) -> str:
    if security.auth_method is None:
        return f"{at} asks for authentication (401): give a token, OAuth2 credentials or a client certificate"
    words = " ".join(reason.split())[:200]
    return f"{at} does not accept the {_shown(security)} (401): {words}"


def _shown(security: Security) -> str:
    """The kind of credentials, without the secret."""
    if security.auth_method == "tls":
        return f"client certificate {security.certificate_file}"
    if security.token_file is not None:
        return f"token in {security.token_file}"
    return "token" if security.oauth2 is None else f"token of {security.oauth2.issuer_url}"


# ---------------------------------------------------------------------------------------------------- the admin address


def _try_admin(host: str, port: int, service: Service, deadline: Deadline) -> str | None:
    at = address(host, port)
    try:
        with dial(host, port, service, timeout_s=max(0.1, deadline.left_s)) as sock:
            status, body = _get_version(sock, host, port, service.security, deadline)
    except TimeoutError:
        return _other_than_admin(host, port, service) or f"{at} takes connections and does not answer"
    except (http.client.HTTPException, ConnectionResetError, BrokenPipeError):
        return _other_than_admin(host, port, service) or f"{at} is not Pulsar's admin interface: it does not speak HTTP"
    except OSError as error:
        other = None if _is_plain(error) else _other_than_admin(host, port, service)
        return other or cause_of(error, host, port)
    if status == HTTPStatus.UNAUTHORIZED:
        return _refused(at, service.security, "the admin interface refuses it")
    if status == HTTPStatus.FORBIDDEN:
        role = role_of(service.security)
        whose = f"role {role!r}" if role is not None else "this role"
        return f"{at}: {whose} may not use the admin interface (403)"
    if status != HTTPStatus.OK or not _VERSION.fullmatch(body.strip()):
        return f"{at} is not Pulsar's admin interface: it does not tell a version of Pulsar (status {status})"
    return None


def _get_version(
    sock: socket.socket, host: str, port: int, security: Security, deadline: Deadline
) -> tuple[int, bytes]:
    sock.settimeout(max(0.05, deadline.left_s))
    connection = http.client.HTTPConnection(host, port)
    connection.sock = sock
    token = token_of(security)
    headers = {"accept": "*/*"} | ({"authorization": f"Bearer {token.value}"} if token is not None else {})
    connection.request("GET", VERSION_PATH, headers=headers)
    response = connection.getresponse()
    return response.status, response.read(_RECEIVE_BYTES)


def _other_than_admin(host: str, port: int, service: Service) -> str | None:
    """The protocol of the admin port instead; None if unknown."""
    at = address(host, port)
    if service.is_tls and _speaks_http(host, port):
        return f"{at} speaks HTTP without TLS: write http:// instead of https://"
    if not service.is_tls and _speaks_tls(host, port):
        return f"{at} speaks TLS: write https:// instead of http://"
    if _speaks_pulsar(host, port):
        return f"{at} speaks Pulsar's binary protocol and not HTTP: it is no admin address"
    return None


# ---------------------------------------------------------------------------------------------------- a second look


def _second(host: str, port: int) -> socket.socket:
    sock = socket.create_connection((host, port), timeout=SECOND_LOOK_S)
    sock.settimeout(SECOND_LOOK_S)
    return sock


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer in TLS, with any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _second(host, port) as sock, context.wrap_socket(sock, server_hostname=host):
            return True
    except (OSError, ValueError):
        return False


def _speaks_pulsar(host: str, port: int) -> bool:
    """Whether CONNECT without credentials gets a frame as its answer."""
    try:
        with _second(host, port) as sock:
            return isinstance(_shake_hands(sock, NO_SECURITY, Deadline.after(SECOND_LOOK_S)), pb.BaseCommand)
    except OSError:
        return False


def _speaks_http(host: str, port: int) -> bool:
    """Whether a request gets an answer in HTTP."""
    try:
        with _second(host, port) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return sock.recv(_RECEIVE_BYTES).startswith(b"HTTP/")
    except OSError:
        return False
