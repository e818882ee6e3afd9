"""Makes a pulsar-client for a service, with authentication and TLS from the suite's values."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any

import pulsar

from conformance.clients.security.credentials import token_of
from conformance.clients.security.service import Security, Service
from conformance.harness_error import HarnessError


def pulsar_client(service: Service | str, **options: Any) -> Any:
    """Make a pulsar-client for this service. Raises :class:`HarnessError` if there is no token."""
    service = Service.of(service)
    return pulsar.Client(service.url, authentication=_authentication(service.security), **_tls(service), **options)


def _authentication(security: Security) -> Any:
    if security.auth_method == "tls":
        return pulsar.AuthenticationTLS(security.certificate_file, security.key_file)
    token = token_of(security)
    if token is None:
        return None
    if security.token is not None:
        return pulsar.AuthenticationToken(token.value)
    last = [token.value]

    def fresh() -> str:
        # It runs on the client's thread, where an exception would end the process; the broker refuses an old token.
        with suppress(HarnessError):
            last[0] = _revealed(security)
        return last[0]

    return pulsar.AuthenticationToken(fresh)


def _revealed(security: Security) -> str:
    token = token_of(security)
    assert token is not None
    return token.value


def _tls(service: Service) -> dict[str, object]:
    """The options for TLS; none without it, as older releases of the client lack some."""
    security = service.security
    if not service.is_tls:
        return {}
    shown: dict[str, object] = {}
    if security.certificate_file is not None and security.auth_method != "tls":
        shown = {
            "tls_certificate_file_path": security.certificate_file,
            "tls_private_key_file_path": security.key_file,
        }
    return {
        "tls_trust_certs_file_path": security.trust_certs_file or ssl.get_default_verify_paths().cafile,
        "tls_allow_insecure_connection": security.allow_insecure,
        "tls_validate_hostname": security.verify_hostname and not security.allow_insecure,
        **shown,
    }
