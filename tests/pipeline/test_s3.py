"""On S3: ``verify s3a://…`` as documented, with a server with S3's interface."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from conformance.brokers.installation.cache import cache_folder
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import Recorded
from tests.pipeline.test_verify import LOST, SOUND

BUCKET = "histories"
SECRETS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "open-sesame", "AWS_REGION": "us-east-1"}
DOCUMENTED = Path(__file__).parents[2] / "docs" / "verify.md"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a server with S3's interface, with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    address = f"127.0.0.1:{port}"
    store(address).create_dir(BUCKET)
    yield address
    server.stop()


def store(endpoint: str) -> fs.S3FileSystem:
    """The same for Arrow."""
    return fs.S3FileSystem(
        access_key=SECRETS["AWS_ACCESS_KEY_ID"],
        secret_key=SECRETS["AWS_SECRET_ACCESS_KEY"],
        region=SECRETS["AWS_REGION"],
        endpoint_override=endpoint,
        scheme="http",
        allow_bucket_creation=True,
    )


def put(endpoint: str, name: str, folder: Path, events: Sequence[Recorded], *, is_compacted: bool) -> None:
    """Write a history into the bucket."""
    with HistoryWriter(folder, "w") as writer:
        for one in events:
            writer.record(one)
    if is_compacted:
        compact(folder)
    fs.copy_files(str(folder), f"{BUCKET}/{name}", fs.LocalFileSystem(), store(endpoint))


def options() -> list[str]:
    """The options as the page on histories names them."""
    return re.findall(r"^ +(--conf spark\.jars\.\S+)", DOCUMENTED.read_text("utf-8"), re.MULTILINE)


def verified(endpoint: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of ``verify`` as a separate process."""
    conf = [f"--conf=spark.jars.ivy={cache_folder('ivy')}"]
    for option in options():
        conf += option.split()
    conf += [f"--conf=spark.hadoop.fs.s3a.endpoint=http://{endpoint}"]
    conf += ["--conf=spark.hadoop.fs.s3a.path.style.access=true"]
    return subprocess.run(
        [sys.executable, "-m", "conformance", "verify", "--master=local[1]", *conf, *arguments],
        env={**os.environ, **SECRETS},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def test_histories_on_s3_are_verified_and_summarised(endpoint: str, tmp_path: Path) -> None:
    put(endpoint, "sound", tmp_path / "sound", SOUND, is_compacted=True)
    put(endpoint, "lost", tmp_path / "lost", LOST, is_compacted=False)
    both = (f"s3a://{BUCKET}/sound", f"s3a://{BUCKET}/lost")
    ran = verified(endpoint, *both, "--summary", f"s3a://{BUCKET}/summary")
    assert ran.returncode == 1, ran.stderr
    assert "DEDUP-15  violated" in ran.stdout
    assert "1 held" in ran.stdout
    assert store(endpoint).get_file_info(f"{BUCKET}/summary/rules").type == fs.FileType.Directory
    assert "open-sesame" not in ran.stdout + ran.stderr


def test_without_the_jars_the_error_names_them(endpoint: str) -> None:
    command = [sys.executable, "-m", "conformance", "verify", "--master=local[1]", f"s3a://{BUCKET}/sound"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 2
    assert "Spark brings no jars for S3: add --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:" in ran.stderr
