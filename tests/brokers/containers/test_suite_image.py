"""Tests of the suite's own image, which its Dockerfile makes: for ``make test-container``, skipped elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from conformance.brokers.containers.engine import DockerClient, connect
from conformance.brokers.containers.image import IMAGE_VARIABLE, base_image
from conformance.brokers.release import fetched_release
from conformance.brokers.startup.agent import agent_jar
from conformance.harness_error import HarnessError

ROOT = Path(__file__).parents[3]
NAME = "localhost/pulsar-conformance-suite:test"
RELEASE = "4.0.8"


@pytest.fixture(scope="module")
def engine() -> DockerClient:
    """The engine; where one was promised by naming an image, its absence is an error and no reason to skip."""
    try:
        return connect()
    except HarnessError as harness_error:
        if IMAGE_VARIABLE in os.environ:
            raise
        pytest.skip(str(harness_error))


@pytest.fixture(scope="module")
def image(engine: DockerClient) -> str:
    """The image, built from what git has; on the Debian of the container tests, as no registry may answer."""
    context = io.BytesIO()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                tar.add(ROOT / name, arcname=name)
        for certificate in Path("/usr/local/share/ca-certificates").rglob("*.crt"):
            tar.add(certificate, arcname=certificate.name)  # what this machine trusts besides Debian's
    context.seek(0)
    arguments = {"BASE": base_image(engine)}
    engine.images.build(
        fileobj=context, custom_context=True, buildargs=arguments, tag=NAME, rm=True, forcerm=True, network_mode="host"
    )
    return NAME


def run(engine: DockerClient, image: str, *arguments: str, **options: object) -> str:
    """What the image's command prints; an exit status other than 0 raises."""
    said: bytes = engine.containers.run(image, list(arguments), remove=True, stderr=True, **options)
    return said.decode()


def test_the_command_is_the_entry_point_and_has_no_privileges(engine: DockerClient, image: str) -> None:
    assert "version 0." in run(engine, image, "--version")
    assert "KEY-01" in run(engine, image, "rules")
    assert run(engine, image, "-u", entrypoint="id").strip() == "10001"


def test_the_image_checks_a_release_from_a_cache_and_writes_its_report(
    engine: DockerClient, image: str, tmp_path: Path
) -> None:
    jar = agent_jar()
    shutil.copytree(fetched_release(RELEASE).folder, tmp_path / "cache" / "releases" / RELEASE)
    shutil.copytree(
        jar.parent, tmp_path / "cache" / "artifacts" / jar.parents[3].name / jar.parents[1].name / jar.parent.name
    )
    (tmp_path / "reports").mkdir()
    subprocess.run(["chmod", "-R", "a+rwX", str(tmp_path)], check=True)
    mounted = {
        str(tmp_path / "cache"): {"bind": "/cache", "mode": "rw"},
        str(tmp_path / "reports"): {"bind": "/reports", "mode": "rw"},
    }
    asked = (
        "check",
        "--broker",
        RELEASE,
        "--rules",
        "DEDUP-02,DEDUP-03",
        "--budget",
        "90s",
        "--report",
        "/reports/4.0.8",
    )
    said = run(engine, image, *asked, volumes=mounted, network_mode="none")
    assert "DEDUP-03" in said
    assert (tmp_path / "reports" / "4.0.8" / "junit.xml").exists()
