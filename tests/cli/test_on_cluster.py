"""Tests of the options for a running cluster, and of ``clean``, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import run

NOWHERE = "pulsar://127.0.0.1:1,http://127.0.0.1:2"


@pytest.mark.parametrize("option", [("--tenant", "t"), ("--allow-cluster-settings",)], ids=lambda option: option[0])
@pytest.mark.parametrize("command", [("check",), ("soak",)], ids=lambda command: command[0])
def test_options_for_a_running_cluster_are_refused_for_another_broker(
    command: tuple[str, ...], option: tuple[str, ...], tmp_path: Path
) -> None:
    ran = run("holds", *command, "--broker", "4.0.8", *option, folder=tmp_path)
    assert ran.status == 2
    assert ran.err == f"pulsar-conformance: {option[0]} is for a cluster that runs already, and 4.0.8 is not one\n"


def test_a_cluster_of_one_address_is_told_that_the_other_is_missing(tmp_path: Path) -> None:
    for option in (("--tls-allow-insecure",), ("--tenant", "t"), ()):
        ran = run("holds", "check", "--broker", "pulsar+ssl://h:6651", *option, folder=tmp_path)
        assert ran.status == 2
        assert ran.err.count("\n") == 1
        assert "'pulsar+ssl://h:6651' has no admin address" in ran.err


def test_an_invalid_name_of_a_tenant_is_refused(tmp_path: Path) -> None:
    ran = run("holds", "check", "--broker", NOWHERE, "--tenant", "a/b", folder=tmp_path)
    assert ran.status == 2
    assert "'a/b' is no name of a tenant" in ran.err


def test_only_a_running_cluster_can_be_cleaned(tmp_path: Path) -> None:
    ran = run("holds", "clean", "--broker", "4.0.8", folder=tmp_path)
    assert ran.status == 2
    assert ran.err.startswith("pulsar-conformance: 4.0.8 is no cluster that runs already")


def test_an_unreachable_cluster_cannot_be_cleaned(tmp_path: Path) -> None:
    ran = run("holds", "clean", "--broker", NOWHERE, folder=tmp_path)
    assert ran.status == 2
    assert "connection refused" in ran.err
    assert ran.err.count("\n") == 1


def test_the_engine_and_the_user_learn_what_the_run_may_leave_on_the_cluster(tmp_path: Path) -> None:
    arguments = ("--broker", NOWHERE, "--tenant", "theirs", "--allow-cluster-settings")
    ran = run("holds", "check", *arguments, "--rules", "DEDUP-01", folder=tmp_path)
    assert "Creates namespaces theirs/pulsar-conformance-" in ran.err
    assert "and sets it back at the end." in ran.err
    (received,) = (file.read_text() for file in tmp_path.rglob("arguments"))
    assert "-tenant theirs" in received
    assert "-allow-cluster-settings" in received
    assert "-run-name pulsar-conformance-" in received
