"""Every command of README and docs: understood in ``make test``, and run as it is written in ``make test-docs``."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from conformance import known
from conformance.brokers.interface import Broker
from conformance.brokers.release import release_archive
from conformance.cli import cli
from tests.documented.placeholders import ELSEWHERE, PLACEHOLDERS, SHORTER, elsewhere, substituted
from tests.documented.shell_commands import ROOT, Command, commands

BIN = Path(sys.executable).parent
FOUND = ROOT / "tests" / "replays" / "histories" / "dedup" / "check-removed.json"
ANYTHING = dict.fromkeys(("tarball", "history", "new", "copy", "recorded", "known"), "/tmp/anything") | {
    "addresses": "pulsar://localhost:1,http://localhost:2",
    "report": "/tmp",  # this one has to be there, and so has the next
    "found": str(FOUND),
    "file": str(ROOT / "LICENSE"),
}
ALL = commands()


def unique(found: list[Command]) -> list[Command]:
    """One of each text."""
    return list({command.text: command for command in found}.values())


REFUSED = "pulsar-conformance check --machines key"
"""What the page on the command line shows as bad input."""


@pytest.mark.parametrize("command", [command for command in ALL if command.text != REFUSED], ids=str)
def test_every_documented_command_is_valid(command: Command) -> None:
    text = substituted(command.text, ANYTHING)
    for part in re.split(r" && | \| ", text):
        understand(shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", part)))


def understand(words: list[str]) -> None:
    """Fail where the program would say that it was called in a wrong way."""
    match [Path(words[0]).name, *words[1:]]:
        case ["pulsar-conformance"]:
            pass
        case ["pulsar-conformance", name, *arguments]:
            found = cli.commands.get(name)
            assert found is not None, f"there is no command {name}"
            found.make_context(name, arguments)
        case ["make", *arguments]:
            asked = ["make", "--dry-run", "--always-make", *arguments]
            subprocess.run(asked, cwd=ROOT, capture_output=True, check=True)
        case ["python" | "python3", "-m", module, *_]:
            assert importlib.util.find_spec(module) is not None
            if "pulsar-conformance" in words:
                understand(words[words.index("pulsar-conformance") :])
        case ["python3" | "java", *arguments] if any(one.endswith((".py", ".java")) for one in arguments):
            pass  # what `report --reproducer` writes; tests/replays run it
        case ["pytest", *arguments]:
            asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments]
            subprocess.run(asked, cwd=ROOT, capture_output=True, check=True)
        case ["spark-submit", *_]:
            understand(["pulsar-conformance", *words[words.index("verify") :]])
        case ["docker", "run", *_]:
            understand(words[words.index("pulsar-conformance") :])
        case ["" | "source" | "pip" | "pipx" | "uv" | "docker", *_]:
            pass  # their own business, and run for real
        case _:
            pytest.fail(f"nobody knows how to understand {words}")


def test_each_entry_of_the_policy_is_used() -> None:
    texts = [command.text for command in ALL]
    for entry in ELSEWHERE:
        assert any(re.fullmatch(entry.pattern, text) for text in texts), entry
    for instead in PLACEHOLDERS:
        assert any(re.search(instead.pattern, text) for text in texts), instead
    shortened = [text for text in texts if not elsewhere(text)]
    for instead in SHORTER:
        assert any(re.search(instead.pattern, text) for text in shortened), instead


RUN_HERE = [command for command in unique(ALL) if elsewhere(command.text) is None]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the commands, with the tests of a clone, which some of them run and write to."""
    folder = tmp_path_factory.mktemp("as-typed")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def typed(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that has this environment's programs on its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    environment = {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}"}
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def recorded(sandbox: Path) -> Path:
    """The history of a short soak."""
    folder = sandbox / "recorded"
    ran = typed(
        f"pulsar-conformance soak --minutes 0.2 --clients 2 --topics 2 --faults none --history {folder}", sandbox
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def checked(sandbox: Path) -> Path:
    """The folder of a check whose reports are gone."""
    folder = sandbox / "checked"
    ran = typed(f"pulsar-conformance check --rules DEDUP-02,DEDUP-03 --budget 2m --report {folder}", sandbox)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (folder / "report.html").unlink()
    return folder


@pytest.fixture
def provided(sandbox: Path, recorded: Path, checked: Path, broker: Broker) -> Iterator[Mapping[str, str]]:
    shutil.copytree(recorded, sandbox / "copy")
    replayed = next(deviation for deviation in known.shipped() if deviation.name == "batch-without-highest-id")
    yield {
        "tarball": str(release_archive("4.0.8")),
        "addresses": f"{broker.addresses.service_url},{broker.addresses.admin_url}",
        "history": str(replayed.history),
        "found": str(FOUND),
        "recorded": str(recorded),
        "report": str(checked),
        "copy": str(sandbox / "copy"),
        "new": str(sandbox / "new"),
        "known": ",".join(deviation.name for deviation in known.shipped()),
    }
    for folder in ("copy", "new"):
        shutil.rmtree(sandbox / folder, ignore_errors=True)


@pytest.mark.as_typed
@pytest.mark.parametrize("command", RUN_HERE, ids=str)
def test_a_documented_command_works_as_typed(command: Command, provided: Mapping[str, str], sandbox: Path) -> None:
    text = substituted(command.text, provided, shorter=True)
    ran = typed(text, sandbox)
    said = f"{text}\n{ran.stdout}\n{ran.stderr}"
    seeded = " --defect " in text or str(FOUND) in text
    assert ran.returncode in ((0, 1) if seeded else (0,)), said
    assert "Traceback" not in said


def test_invalid_commands_are_refused_like_those_of_a_user() -> None:
    with pytest.raises(click.UsageError):
        understand(["pulsar-conformance", "check", "--bugdet", "90s"])
    with pytest.raises(subprocess.CalledProcessError):
        understand(["make", "no-such-target"])
    with pytest.raises(subprocess.CalledProcessError):
        understand(["pytest", "--pyargs", "stateful", "--no-such-option"])
