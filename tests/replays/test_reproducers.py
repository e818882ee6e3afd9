"""Programs that reproduce finds without the suite, on a real broker: they end with 1 where it is, with 0 elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.brokers.installation.java import find_java
from conformance.brokers.release import fetched_release
from conformance.report.reproducer.program import Program
from tests.replays.seeded_world import SeededWorld
from tests.report.reproducer.finds import IN_BOTH, IN_PYTHON_ALONE, OF_40, STARTING_ITS_BROKER, programs_of

TIMEOUT_S = 300
EVERY_CHANGE = (
    "batch-index-acks-not-recovered",
    "batch-without-highest-id",
    "consecutive-batch-assumed",
    "last-message-id-of-empty-ledger",
    "overlapping-batch-dropped",
    "peek-creates-subscription",
    "unsubscribe-while-disconnected-fails",
    "topic-policy-awaits-reload",
    "unlimited-subscription-not-counted",
)
"""Those that take a second or two."""

FINDS = [
    name if name in EVERY_CHANGE else pytest.param(name, marks=pytest.mark.weekly)
    for name in (*IN_PYTHON_ALONE, *IN_BOTH)
]


@pytest.mark.parametrize("name", FINDS)
def test_a_script_of_pulsar_client_finds_what_the_broker_has(seeded: SeededWorld, name: str, tmp_path: Path) -> None:
    _demand(name, programs_of(name)["Python"], (sys.executable,), tmp_path, _of(seeded))


@pytest.mark.weekly
@pytest.mark.parametrize("name", IN_BOTH)
def test_a_program_of_the_java_client_finds_what_the_broker_has(seeded: SeededWorld, name: str, tmp_path: Path) -> None:
    _demand(name, programs_of(name)["Java"], _java(seeded.world.broker.version), tmp_path, _of(seeded))


@pytest.mark.weekly
@pytest.mark.parametrize("name", STARTING_ITS_BROKER)
def test_a_program_without_addresses_starts_a_broker_of_its_own(name: str, tmp_path: Path) -> None:
    _demand(name, programs_of(name)["Java"], _java("4.0.8"), tmp_path)


def _java(release: str) -> tuple[str, ...]:
    jars = str(fetched_release(release).folder / "lib" / "*")
    return (str(find_java().executable), "-Xmx256m", "-Djava.net.preferIPv4Stack=true", "-cp", jars)


def _of(seeded: SeededWorld) -> tuple[str, ...]:
    addresses = seeded.world.broker.addresses
    return (addresses.service_url, addresses.admin_url)


def _demand(
    name: str, program: Program, runner: tuple[str, ...], folder: Path, addresses: tuple[str, ...] = ()
) -> None:
    """Run a program as its first lines say; it ends as the release demands, with a sentence."""
    (folder / program.file).write_text(program.text, "utf-8")
    command = [*runner, program.file, *addresses]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    is_there = name in OF_40
    assert ran.returncode == int(is_there), ran.stdout + ran.stderr
    assert ("It is there: " if is_there else "It is not there.") in ran.stdout
