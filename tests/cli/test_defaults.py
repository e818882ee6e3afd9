"""Defaults of options from environment variables and from the file of ``--config``."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from conformance.cli import cli
from conformance.cli.parameters.defaults import defaults_in
from tests.cli.command_line import run

TYPED = ("check", "--json", "verdicts.json", "--report", "report")


def written(folder: Path, text: str) -> Path:
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


def command_of(folder: Path) -> str:
    command: str = json.loads((folder / "verdicts.json").read_text())["command"]
    return command


def test_options_have_defaults_in_the_environment_and_the_command_in_reports_repeats_them(tmp_path: Path) -> None:
    environment = {
        "PULSAR_CONFORMANCE_BROKER": "4.0.6",
        "PULSAR_CONFORMANCE_CHECK_RULES": "DEDUP-01",
        "PULSAR_CONFORMANCE_CHECK_SETTING": "maxMessageSize=10240 a=b",
        "PULSAR_CONFORMANCE_CHECK_VERBOSE": "1",
    }
    ran = run("holds", *TYPED, "--seed", "3", folder=tmp_path, environment=environment)
    assert (ran.status, ran.out.splitlines()[0]) == (0, "Seed 3, broker 4.0.6, 1 rule, budget 600 s")
    command = command_of(tmp_path)
    assert command.startswith("pulsar-conformance ")
    assert "check --json verdicts.json --report report --seed 3" in command
    for given in ("--broker 4.0.6", "--rules DEDUP-01", "--setting maxMessageSize=10240 --setting a=b", "--verbose"):
        assert given in command


def test_a_file_gives_defaults_if_it_is_named_and_options_go_before_it(tmp_path: Path) -> None:
    written(
        tmp_path,
        '[tool.pulsar-conformance.check]\nbroker = "4.0.6"\nrules = ["DEDUP-01", "DEDUP-02"]\nbudget = "9s"\nseed = 7\n'
        'setting = ["maxMessageSize=10240"]\n[tool.pulsar-conformance.soak]\nminutes = 3\n',
    )
    ran = run("holds", "--config", "pyproject.toml", *TYPED, "--budget", "8s", folder=tmp_path)
    assert (ran.status, ran.out.splitlines()[0]) == (0, "Seed 7, broker 4.0.6, 2 rules, budget 8 s")
    assert "--config" not in command_of(tmp_path)
    assert "--rules DEDUP-01,DEDUP-02" in command_of(tmp_path)


def test_no_file_of_the_working_directory_is_read_without_being_named(tmp_path: Path) -> None:
    written(tmp_path, '[tool.pulsar-conformance.check]\nrules = "DEDUP-01"\nknown = "theirs.json"\nclient = "3.3.0"\n')
    ran = run("holds", *TYPED, "--rules", "DEDUP-01,DEDUP-02", "--seed", "1", folder=tmp_path)
    assert ran.status == 0
    assert ran.out.startswith("Seed 1, broker 4.0.8, 2 rules")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no table [tool.pulsar-conformance.COMMAND]"),
        ("no TOML", "cannot be read as TOML"),
        ("[tool.pulsar-conformance.chek]", "there is no command 'chek'; did you mean 'check'?"),
        ('[tool.pulsar-conformance]\ncheck = "4.0.8"', "write a table [tool.pulsar-conformance.check]"),
        ('[tool.pulsar-conformance.check]\nbugdet = "9s"', "there is no option 'bugdet'; did you mean 'budget'?"),
        ('[tool.pulsar-conformance.check]\ntoken = "secret"', "token of check is a secret"),
        ('[tool.pulsar-conformance.check]\nverbose = "yes"', "is switched on with true, and takes no 'yes'"),
        ("[tool.pulsar-conformance.check]\nbudget = { s = 9 }", "takes a text, a number or a list of them"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError) as refused:
        defaults_in(written(tmp_path, text), cli.commands)
    message = refused.value.format_message()
    assert sentence in message
    assert "\n" not in message.replace("secret", "")


def test_a_variable_has_the_name_of_its_option_and_a_token_has_one_only() -> None:
    """A token's variable is removed before other processes start; a second one would stay."""
    variables = {
        (name, option.opts[-1]): option.envvar
        for name, command in cli.commands.items()
        for option in command.params
        if isinstance(option, click.Option)
    }
    assert variables["check", "--settings"] == "PULSAR_CONFORMANCE_CHECK_SETTINGS"
    assert variables["check", "--setting"] == "PULSAR_CONFORMANCE_CHECK_SETTING"
    assert variables["soak", "--fault-every"] == "PULSAR_CONFORMANCE_SOAK_FAULT_EVERY"
    assert variables["replay", "--broker"] == variables["check", "--broker"] == "PULSAR_CONFORMANCE_BROKER"
    assert variables["check", "--token"] == "PULSAR_CONFORMANCE_TOKEN"
    assert {option for (_, option), variable in variables.items() if variable is None} == {"--force", "--token-env"}
