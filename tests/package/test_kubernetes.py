"""The Job for Kubernetes: it keeps to the schema, and its command is one of the suite's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from conformance.brokers.interface import Broker
from tests.package.commands import ROOT

OLDEST_SERVED = "1.30"


@pytest.fixture
def job() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "deploy" / "job.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def container(job: dict[str, Any]) -> dict[str, Any]:
    (only,) = job["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("version", [OLDEST_SERVED, kubernetes_validate.latest_version()])
def test_the_job_keeps_to_the_schema_of_kubernetes(version: str, job: dict[str, Any]) -> None:
    kubernetes_validate.validate(job, version, strict=True)


def test_a_field_that_kubernetes_does_not_have_is_noticed(job: dict[str, Any]) -> None:
    container(job)["arguments"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="arguments"):
        kubernetes_validate.validate(job, OLDEST_SERVED, strict=True)


def test_the_command_of_the_job_checks_a_running_cluster(job: dict[str, Any], broker: Broker, tmp_path: Path) -> None:
    """As `--dry-run`, which connects: the addresses are those of the tests' broker, and no secret exists."""
    address = container(job)["env"][0]
    assert address == {
        "name": "PULSAR_CONFORMANCE_BROKER",
        "value": "pulsar://pulsar-broker:6650,http://pulsar-broker:8080",
    }
    environment = {address["name"]: f"{broker.addresses.service_url},{broker.addresses.admin_url}"}
    command = [sys.executable, "-P", "-m", "conformance", *container(job)["args"], "--dry-run"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert broker.version in ran.stdout
