"""Which settings a release has, and the errors for those that it does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.release import Release, fetched_release
from conformance.brokers.select import demand_settings, has_settings
from conformance.brokers.settings import MACHINES, NEAR, QUICK, STEADY
from conformance.brokers.settings.known import Descriptor, demand_known, known_settings
from conformance.brokers.settings.swarm import SWARM, drawn
from conformance.harness_error import HarnessError
from conformance.known import HISTORIES

RELEASE = "4.0.8"
HISTORY = next(HISTORIES.glob("*.json"))


@pytest.fixture(scope="module")
def release() -> Release:
    return fetched_release(RELEASE)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("brokerDeduplicationEnabledd", "true", "did you mean 'brokerDeduplicationEnabled'?"),
        ("brokerDeduplicationEnabled", "banana", "takes true or false, not 'banana'"),
        ("maxMessageSize", "1e3", "takes an integer, not '1e3'"),
        ("maxMessageSize", "3000000000", "takes an integer, not '3000000000'"),
        ("managedLedgerDefaultMarkDeleteRateLimit", "often", "takes a number, not 'often'"),
        ("brokerDeleteInactiveTopicsMode", "sometimes", "takes one of delete_when_no_subscriptions, "),
        ("journalMaxGroupWaitMSec", "x", "takes an integer, not 'x'"),
        ("journalmaxGroupWait", "1", "did you mean 'journalMaxGroupWaitMSec'?"),
    ],
)
def test_a_setting_or_value_that_a_release_does_not_know_is_refused(
    release: Release, name: str, value: str, sentence: str
) -> None:
    with pytest.raises(HarnessError, match="cannot be given") as refused:
        demand_known(release.folder, {name: value})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brokerDeduplicationEnabled", "TRUE"),
        ("managedLedgerDefaultMarkDeleteRateLimit", "0.5"),
        ("maxMessageSize", "-1"),
        ("brokerDeleteInactiveTopicsMode", "delete_when_no_subscriptions"),
        ("brokerServicePort", ""),
        ("journalSyncData", "false"),
        ("dbStorage_writeCacheMaxSizeMb", "16"),
        ("bookkeeper_anything", "else"),
        ("brokerClient_keepAliveIntervalSeconds", "5"),
    ],
)
def test_a_known_setting_is_accepted(release: Release, name: str, value: str) -> None:
    demand_known(release.folder, {name: value})


@pytest.mark.parametrize(
    "command",
    [
        ("check", "--broker", RELEASE),
        ("soak", "--broker", RELEASE, "--history", "history"),
        ("replay", str(HISTORY), "--broker", RELEASE),
    ],
    ids=lambda command: command[0],
)
def test_a_command_refuses_an_unknown_setting_before_it_starts_anything(
    tmp_path: Path, release: Release, command: tuple[str, ...]
) -> None:
    asked = [sys.executable, "-m", "conformance", *command, "--setting", "brokerDeduplicationEnabledd=banana"]
    cache, folder = tmp_path / "cache", tmp_path / "here"
    (cache / "releases").mkdir(parents=True)
    (cache / "releases" / release.folder.name).symlink_to(release.folder)  # and nothing that is prepared from it
    folder.mkdir()
    environment = {**os.environ, ENVIRONMENT_VARIABLE: str(cache)}
    ran = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert ran.stderr.rstrip().endswith("did you mean 'brokerDeduplicationEnabled'?")
    assert "Preparing" not in ran.stderr
    assert list(folder.iterdir()) == []


def test_the_suites_own_settings_exist_in_the_releases(release: Release) -> None:
    known = known_settings(release.folder)
    settings = {name: one.value for table in (QUICK, NEAR, STEADY, MACHINES) for name, one in table.items()}
    assert [known.refusal(name, value) for name, value in settings.items() if known.refusal(name, value)] == []


def test_every_value_that_a_swarm_draws_is_valid(release: Release) -> None:
    known = known_settings(release.folder)
    has = [one for one in SWARM if one.name in known.broker]
    assert [why for one in has for value in one.values if (why := known.refusal(one.name, value))] == []
    assert len(has) >= 30


def test_a_seed_draws_the_same_for_every_release_except_missing_settings() -> None:
    whole = drawn(7, lambda _: True)
    assert whole == drawn(7, lambda _: True) != drawn(8, lambda _: True)
    lacking = next(iter(whole))
    assert drawn(7, lambda name: name != lacking) == {name: v for name, v in whole.items() if name != lacking}


def test_a_swarm_draws_only_settings_of_the_release() -> None:
    has = has_settings(RELEASE)
    assert has("keySharedUnblockingIntervalMs")
    assert not has("streamingDispatch")


def test_a_running_cluster_keeps_its_settings() -> None:
    running = "pulsar://localhost:6650,http://localhost:8080"
    demand_settings(running, {})
    with pytest.raises(HarnessError, match="maxMessageSize=9 has no meaning"):
        demand_settings(running, {"maxMessageSize": "9"})
    with pytest.raises(HarnessError, match="--settings shipped has no meaning"):
        demand_settings(running, {}, "shipped")


def test_a_folder_without_the_jar_of_settings_is_no_release(release: Release, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    shutil.copytree(release.folder / "conf", tmp_path / "conf")
    with pytest.raises(HarnessError, match="no jar with the broker's settings"):
        known_settings(tmp_path)


def test_an_integer_has_the_bits_of_its_type() -> None:
    assert Descriptor("integer", bits=32).refusal("n", str(2**31 - 1)) is None
    assert Descriptor("integer", bits=32).refusal("n", str(2**31)) is not None
    assert Descriptor("integer").refusal("n", str(2**31)) is None
