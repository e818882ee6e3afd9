"""The options that say how to connect to a cluster that runs already: TLS and authentication.

Each can come from an environment variable as well. A token that is written on the command line would stand in the list
of processes: :func:`hide_token` takes it off there before anything else is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from conformance.systems.security import TOKEN_VARIABLE, OAuth2, Secret, Security

PREFIX: Final = "PULSAR_CONFORMANCE_"
_FILE: Final = click.Path(exists=True, dir_okay=False, resolve_path=True)
_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--tls-trust-certs", type=_FILE, help="CA certificates to trust (PEM).  [default: the system's]"),
    click.option("--tls-certificate", type=_FILE, help="Client certificate (PEM)."),
    click.option("--tls-key", type=_FILE, help="Its key (PEM).  [default: in the certificate's file]"),
    click.option("--tls-allow-insecure", is_flag=True, help="Accept any certificate."),
    click.option("--tls-skip-hostname-verification", is_flag=True, help="Accept a certificate for another host."),
    click.option("--token", metavar="TEXT", help="Token; a file or a variable is safer."),
    click.option("--token-file", type=_FILE, help="File with the token, read again when it expires."),
    click.option("--token-env", metavar="NAME", help="Environment variable with the token."),
    click.option("--oauth2-issuer", metavar="URL", help="Issuer of OAuth2 access tokens."),
    click.option("--oauth2-credentials", type=_FILE, help="File with client_id and client_secret (JSON)."),
    click.option("--oauth2-audience", metavar="TEXT", help="Audience of the access token."),
    click.option("--oauth2-scope", metavar="TEXT", help="Scope of the access token."),
)


def _names() -> list[str]:
    names = []
    for option in _OPTIONS:
        holder = option(lambda: None)
        names.append(holder.__click_params__[0].name)  # type: ignore[attr-defined]
    return names


