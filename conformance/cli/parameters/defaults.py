"""Defaults of options from a file (``--config``) and from environment variables.

The file is read only if it is named. In CI the working directory may be that of a stranger's pull request: a file that
was read from there without being asked for could choose a broker or a client to execute, tolerate deviations, or leave
out the rules that the change breaks.
"""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from conformance.cli.parameters.connection import take_token_off
from conformance.cli.parameters.output import NAME
from conformance.clients.security.options import NAMES
from conformance.files import content
from model.rules import names

VARIABLES: Final = "PULSAR_CONFORMANCE"
"""The prefix of environment variables: PULSAR_CONFORMANCE_CHECK_BUDGET is the option --budget of ``check``."""

TABLE: Final = f"tool.{NAME}"
_AT_MOST_BYTES: Final = 1 << 20
_SECRETS: Final = ("token",)
"""Options that a file cannot have, because it is kept with the sources of a project."""


_TYPED_ONLY: Final = ("force", "token-env")
"""Options that no variable and no file sets: what is removed by force, and the name of another variable."""


def give_variables(command: click.Command) -> None:
    """Give each option of a command the environment variable of its name, unless it has one for all commands."""
    for option in _options(command):
        if option.envvar is None and _long(option) not in _TYPED_ONLY:
            option.envvar = f"{VARIABLES}_{command.name}_{_long(option)}".upper().replace("-", "_")


def _take(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is not None:
        assert isinstance(context.command, click.Group)
        context.default_map = defaults_in(file, context.command.commands)


config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    expose_value=False,
    callback=_take,
    help=f"Read defaults from [{TABLE}.COMMAND] of FILE, such as pyproject.toml.  [default: no file is read]",
)
"""``--config``, an option of the whole command line."""


def defaults_in(file: Path, commands: Mapping[str, click.Command]) -> dict[str, dict[str, Any]]:
    """The defaults in a file: by command, and by the name of the parameter. Raises UsageError."""
    tables: Any = _read(file)
    for part in TABLE.split("."):
        tables = tables.get(part) if isinstance(tables, dict) else None
    if not isinstance(tables, dict):
        raise click.UsageError(f"{file} has no table [{TABLE}.COMMAND]")
    found = {}
    for name, table in tables.items():
        if name not in commands:
            raise click.UsageError(f"{file}: {names.unknown('command', name, commands)}")
        if not isinstance(table, dict):
            raise click.UsageError(f"{file}: {name} is a command, so write a table [{TABLE}.{name}]")
        found[name] = dict(
            _default(f"{file}: {key} of {name}", key, value, commands[name]) for key, value in table.items()
        )
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content(file, at_most_bytes=_AT_MOST_BYTES).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{file} cannot be read as TOML: {error}") from None


def _default(where: str, key: str, value: Any, command: click.Command) -> tuple[str, Any]:
    """The name of the parameter and its value, as if typed."""
    options = {_long(option): option for option in _options(command) if _long(option) not in _TYPED_ONLY}
    if key in _SECRETS:
        raise click.UsageError(f"{where} is a secret, which does not belong in a file: write token-file or token-env")
    if key not in options:
        raise click.UsageError(f"{where}: {names.unknown('option', key, options)}")
    option = options[key]
    assert option.name is not None
    if option.is_flag and not isinstance(value, bool):
        raise click.UsageError(f"{where} is switched on with true, and takes no {value!r}")
    if option.is_flag:
        return option.name, value
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values):
        raise click.UsageError(f"{where} takes a text, a number or a list of them, and no {value!r}")
    words = [str(one) for one in values]
    return option.name, words if option.multiple else ",".join(words)


def _options(command: click.Command) -> Iterable[click.Option]:
    return (one for one in command.params if isinstance(one, click.Option))


def _long(option: click.Option) -> str:
    return option.opts[-1].removeprefix("--")


def command_line(context: click.Context) -> str:
    """The command line, with what the environment and the file gave, so that it repeats the run; without a token."""
    typed, _ = take_token_off(sys.argv[1:])
    return shlex.join([NAME, *_without_config(typed), *_given_elsewhere(context)])


def _without_config(words: Sequence[str]) -> Iterable[str]:
    rest = iter(words)
    for word in rest:
        if word == "--config":
            next(rest, None)
        elif not word.startswith("--config="):
            yield word


def _given_elsewhere(context: click.Context) -> Iterable[str]:
    for option in _options(context.command):
        name = str(option.name)
        if name in NAMES:  # they may be secret; a report has them, without secrets, as options of the connection
            continue
        match context.get_parameter_source(name):
            case ParameterSource.ENVIRONMENT:
                value = option.value_from_envvar(context)
            case ParameterSource.DEFAULT_MAP:
                value = context.lookup_default(name)
            case _:
                continue
        if option.is_flag:
            yield from [option.opts[-1]] if context.params[name] else []
            continue
        for one in [value] if isinstance(value, str) else value:
            yield from (option.opts[-1], str(one))
