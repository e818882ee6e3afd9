"""Makes a :class:`Security` from command-line options or environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.clients.security.service import TOKEN_VARIABLE, OAuth2, Secret, Security

PREFIX: Final = "PULSAR_CONFORMANCE_"

NAMES: Final = (
    "tls_trust_certs",
    "tls_certificate",
    "tls_key",
    "tls_allow_insecure",
    "tls_skip_hostname_verification",
    "token",
    "token_file",
    "oauth2_issuer",
    "oauth2_credentials",
    "oauth2_audience",
    "oauth2_scope",
)
"""The names of the options; the environment variables are in capitals, after :data:`PREFIX`."""


def variable(name: str) -> str:
    """The environment variable of one of these names."""
    return PREFIX + name.upper()


def security_given(values: Mapping[str, str | bool | None]) -> Security:
    """Make the value. Raises :class:`ValueError` for a contradiction."""
    text = {name: str(value) for name, value in values.items() if value and not isinstance(value, bool)}
    ways = [name for name in ("token", "token_file", "oauth2_issuer") if name in text]
    if len(ways) > 1:
        raise ValueError(f"{_option(ways[0])} and {_option(ways[1])} do not go together: one way of authentication")
    if "tls_key" in text and "tls_certificate" not in text:
        raise ValueError("--tls-key is the key of --tls-certificate, which is missing")
    return Security(
        trust_certs_file=text.get("tls_trust_certs"),
        certificate_file=text.get("tls_certificate"),
        key_file=text.get("tls_key", text.get("tls_certificate")),
        allow_insecure=_is_set(values.get("tls_allow_insecure")),
        verify_hostname=not _is_set(values.get("tls_skip_hostname_verification")),
        token=_token(text["token"]) if "token" in text else None,
        token_file=text.get("token_file"),
        oauth2=_oauth2(text),
    )


def security_in(environment: Mapping[str, str]) -> Security:
    """The value from environment variables. Raises the same as :func:`security_given`."""
    return security_given({name: environment.get(variable(name)) for name in NAMES})


def _token(text: str) -> Secret:
    token = text.strip().removeprefix("token:")
    if not token or any(character.isspace() for character in token):
        raise ValueError(f"the token, in --token, --token-env or {TOKEN_VARIABLE}, is empty or has spaces in it")
    return Secret(token)


def _oauth2(text: Mapping[str, str]) -> OAuth2 | None:
    if not any(name.startswith("oauth2") for name in text):
        return None
    if "oauth2_issuer" not in text or "oauth2_credentials" not in text:
        raise ValueError("OAuth2 needs both --oauth2-issuer and --oauth2-credentials")
    return OAuth2(
        issuer_url=text["oauth2_issuer"],
        credentials_file=text["oauth2_credentials"],
        audience=text.get("oauth2_audience"),
        scope=text.get("oauth2_scope"),
    )


def _is_set(value: str | bool | None) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in ("1", "true", "yes", "on"))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
