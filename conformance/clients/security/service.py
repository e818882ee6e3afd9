"""How to connect to a Pulsar with TLS or authentication, as values that can be compared, sent and printed.

A secret is never printed: its ``repr`` hides it, and messages name the file or variable that it comes from.
:mod:`conformance.clients.security.credentials` reads and fetches tokens,
:mod:`conformance.clients.security.transport` opens sockets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TOKEN_VARIABLE: Final = "PULSAR_CONFORMANCE_TOKEN"
"""The environment variable that a token may be in."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret text: neither ``repr`` nor ``str`` shows it."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2:
    """OAuth2 client credentials: the suite fetches an access token, and a new one before it expires.

    ``credentials_file`` is the JSON file that Pulsar's own clients read, with ``client_id`` and ``client_secret``.
    """

    issuer_url: str
    credentials_file: str
    audience: str | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How all clients of a run connect to any address, whose scheme decides on TLS.

    At most one of ``token``, ``token_file`` and ``oauth2`` is set. Without them, a client certificate is also the
    authentication (Pulsar's method ``tls``).
    """

    trust_certs_file: str | None = None
    """PEM file of the certificate authorities to trust; None for the system's."""
    certificate_file: str | None = None
    key_file: str | None = None
    allow_insecure: bool = False
    """Accept any certificate."""
    verify_hostname: bool = True
    token: Secret | None = None
    token_file: str | None = None
    oauth2: OAuth2 | None = None

    @property
    def auth_method(self) -> str | None:
        """Pulsar's name of the authentication; None without one."""
        if self.token is not None or self.token_file is not None or self.oauth2 is not None:
            return "token"
        return "tls" if self.certificate_file is not None else None

    def options(self) -> list[str]:
        """The equivalent command-line options; a token as text becomes its environment variable."""
        values = {
            "--tls-trust-certs": self.trust_certs_file,
            "--tls-certificate": self.certificate_file,
            "--tls-key": self.key_file,
            "--token-env": TOKEN_VARIABLE if self.token is not None else None,
            "--token-file": self.token_file,
            "--oauth2-issuer": self.oauth2 and self.oauth2.issuer_url,
            "--oauth2-credentials": self.oauth2 and self.oauth2.credentials_file,
            "--oauth2-audience": self.oauth2 and self.oauth2.audience,
            "--oauth2-scope": self.oauth2 and self.oauth2.scope,
        }
        flags = {
            "--tls-allow-insecure": self.allow_insecure,
            "--tls-skip-hostname-verification": not self.verify_hostname,
        }
        given = [word for option, value in values.items() if value for word in (option, value)]
        return given + [flag for flag, is_set in flags.items() if is_set]


NO_SECURITY: Final = Security()
"""No authentication; with TLS, the certificates that the system trusts."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service or admin address with its security, for every client.

    ``url``: ``pulsar://``, ``pulsar+ssl://``, ``http://`` or ``https://`` and one or more ``host:port``, separated
    by commas, of one cluster.
    """

    url: str
    security: Security = NO_SECURITY

    @classmethod
    def of(cls, service: Service | str) -> Service:
        """The service itself, or one without authentication for a URL."""
        return cls(service) if isinstance(service, str) else service

    @property
    def is_tls(self) -> bool:
        """Whether its scheme is one with TLS."""
        return self.url.startswith(("pulsar+ssl://", "https://"))

    def at(self, url: str) -> Service:
        """The same credentials at another address."""
        return Service(url, self.security)

    def __str__(self) -> str:
        return self.url
