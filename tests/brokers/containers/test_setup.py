"""Tests of the setup for container brokers, on machines without an engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.brokers.container import ContainerBroker
from conformance.brokers.containers.__main__ import main
from conformance.brokers.containers.debian import Unavailable, provide
from conformance.brokers.containers.engine import connect
from conformance.harness_error import HarnessError


@pytest.fixture
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")


@pytest.mark.usefixtures("_no_engine")
def test_without_an_engine_the_error_is_one_sentence_and_nothing_is_left() -> None:
    broker = ContainerBroker("localhost/pulsar-conformance:4.0.8")
    with pytest.raises(
        HarnessError, match=r"No container engine answers \(No such file or directory\): install"
    ) as harness_error:
        broker.start()
    assert "\n" not in str(harness_error.value)
    assert not broker.is_alive()
    broker.stop()


def test_an_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(HarnessError, match="on another machine"):
        connect()


@pytest.mark.usefixtures("_no_engine")
def test_a_machine_that_cannot_run_the_container_tests_may_skip_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--or-skip", "4.0.8", "false"]) == 0
    assert capsys.readouterr().err.startswith("skipped: No container engine of this machine answers at unix://")


@pytest.mark.usefixtures("_no_engine")
def test_a_machine_that_cannot_run_a_command_with_containers_fails_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["4.0.8", "true"]) == 2
    assert capsys.readouterr().err.startswith("No container engine of this machine answers at unix://")


def test_installed_packages_are_not_installed_again() -> None:
    provide("python3", "no-such-package")


def test_an_error_names_the_packages_that_could_not_be_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(Unavailable, match=r"mmdebstrap is not installed, and .* takes root on Debian or Ubuntu\."):
        provide("mmdebstrap", "mmdebstrap")
