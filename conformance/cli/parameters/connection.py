"""The options for the connection to a running cluster: TLS and authentication.

Each has an environment variable, too. A token on the command line is visible in the list of processes, so
:func:`take_token_off` removes it from there first.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import click

from conformance.clients.security.options import NAMES, security_given, variable
from conformance.clients.security.service import TOKEN_VARIABLE, Security

F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, resolve_path=True)
_HELP: Final[Mapping[str, Mapping[str, Any]]] = {
    "tls_trust_certs": {"type": _FILE, "help": "CA certificates to trust, PEM.  [default: the system's]"},
    "tls_certificate": {"type": _FILE, "help": "Client certificate, PEM."},
    "tls_key": {"type": _FILE, "help": "Its key, PEM.  [default: in the same file]"},
    "tls_allow_insecure": {"is_flag": True, "help": "Accept any certificate."},
    "tls_skip_hostname_verification": {"is_flag": True, "help": "Accept a certificate of another host."},
    "token": {"metavar": "TEXT", "help": "Token. A file or a variable is safer."},
    "token_file": {"type": _FILE, "help": "File with a token; it is read again when the token expires."},
    "oauth2_issuer": {"metavar": "URL", "help": "Issuer of OAuth2 access tokens."},
    "oauth2_credentials": {"type": _FILE, "help": "JSON file with client_id and client_secret."},
    "oauth2_audience": {"metavar": "TEXT", "help": "Audience of the access token."},
    "oauth2_scope": {"metavar": "TEXT", "help": "Scope of the access token."},
}


def connection_options(command: F) -> F:
    """Add all of these options to a command, which receives them as one argument, ``security``."""

    @functools.wraps(command)
    def with_security(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in NAMES}
        named = options.pop("token_env")
        return command(*arguments, security=_security(given, named), **options)

    decorated = click.option("--token-env", metavar="NAME", help="Environment variable with a token.")(with_security)
    for name in reversed(NAMES):
        option = "--" + name.replace("_", "-")
        decorated = click.option(option, envvar=variable(name), **_HELP[name])(decorated)
    return cast(F, decorated)


def _security(given: dict[str, Any], token_env: str | None) -> Security:
    if token_env is not None:
        if token_env not in os.environ:
            raise click.UsageError(f"there is no environment variable {token_env}, which --token-env names")
        given["token"] = os.environ[token_env]
    for name in {TOKEN_VARIABLE, token_env} - {None}:
        os.environ.pop(str(name), None)  # otherwise every process that the suite starts would inherit it
    try:
        return security_given(given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def take_token_off(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The command line with the name of a variable instead of the token, and the token."""
    left: list[str] = []
    token: str | None = None
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--token":
            token = value if equals else next(words, "")
            left += ["--token-env", TOKEN_VARIABLE]
        else:
            left.append(word)
    return left, token


def hide_token() -> None:
    """Restart this process without the token, if its command line has one."""
    arguments, token = take_token_off(sys.argv[1:])
    if token is not None:
        own = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
        environment = {**os.environ, TOKEN_VARIABLE: token}
        os.execve(sys.executable, [sys.executable, *own[1:], *arguments], environment)
