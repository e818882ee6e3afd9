"""Invalid values of options: one sentence, status 2, no traceback. Nothing is started."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from conformance import cli
from conformance.commands.supervision.engine import Engine
from conformance.harness_error import HarnessError

BAD = (
    *(
        "",
        " ",
        ",",
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "9" * 40,
        "\u202e",
        "null",
        "a\nb",
        "{}",
        "*",
        "%s%n",
        "\U0001f4a5",
    ),
    *(
        "../..",
        "/",
        "/dev/full",
        "/dev/zero",
        "taken",
        "pipe",
        "taken/x",
        "folder",
        "nowhere/x",
        "--",
        "a=b=c",
        "=",
        "none,none",
    ),
)

ENDING = {
    "check": ("--broker", "no such"),
    "soak": ("--broker", "no such"),
    "tap": ("--history", "missing", "--broker", "no such"),
    "replay": ("no such", "--broker", "4.0.8"),
    "defects": ("no-such",),
    "explore": ("--list",),
}
"""What ends each command, in one sentence or well, however good its option is. Others end without it."""

OPTIONS = [
    (name, parameter.opts[0])
    for name, command in cli.cli.commands.items()
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.is_flag
]


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids="".join)
def test_an_invalid_value_of_an_option_is_one_sentence(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for value in BAD:
        if command == "verify":  # what is good would start Spark
            with pytest.raises(click.ClickException):
                cli.cli.commands[command].make_context(command, [option, value])
            continue
        with pytest.raises(SystemExit) as ended:
            cli.main([command, *ENDING.get(command, ()), option, value], Engine())
        said = capsys.readouterr().err
        assert (ended.value.code, said.count("\n")) in ((2, 1), (0, 0)), (value, said)
        assert "the suite itself failed" not in said, (value, said)


def test_a_path_that_is_not_there_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("conformance.pipeline.session.session", lambda *_: pytest.fail("Spark was started"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", "missing"], Engine())
    assert ended.value.code == 2
    assert capsys.readouterr().err == "pulsar-conformance: missing cannot be read: there is no such file or folder\n"


@pytest.mark.parametrize("path", ["file:/nowhere", "s3a://bucket/history", "history-*"])
def test_addresses_and_patterns_are_left_to_spark(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object) -> None:
        raise HarnessError("Spark was started")

    monkeypatch.setattr("conformance.pipeline.session.session", started)
    with pytest.raises(SystemExit):
        cli.main(["verify", path], Engine())
    assert capsys.readouterr().err == "pulsar-conformance: Spark was started\n"
