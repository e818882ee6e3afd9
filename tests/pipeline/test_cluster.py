"""On a cluster: executors are separate processes, which fetch the suite from the driver."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pyspark
import pytest

import conformance
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from tests.pipeline.test_verify import SOUND

CLUSTER = "local-cluster[1,1,1024]"
"""A master and a worker of Spark, started for the test; the executor is a separate process, as on any cluster."""

LOGS = """
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
spark.eventLog.dir {folder}
"""

COMMAND = str(Path(conformance.__path__[0]) / "__main__.py")
SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
REPOSITORY = str(Path(conformance.__path__[0]).parent)
VERIFY = Path(REPOSITORY) / "docs" / "verify.md"


@pytest.mark.parametrize(
    "started",
    [
        [sys.executable, COMMAND, "verify", "--master", CLUSTER],
        [SUBMIT, "--master", CLUSTER, COMMAND, "verify"],
    ],
    ids=["with --master", "by spark-submit"],
)
def test_a_cluster_verifies_a_compacted_history(started: list[str], tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history", "w") as writer:
        for one in SOUND:
            writer.record(one)
    compact(tmp_path / "history")
    (tmp_path / "log").mkdir()
    (tmp_path / "spark").mkdir()
    for path in Path(pyspark.__path__[0]).iterdir():  # a separate home, because executors work in a folder below it
        (tmp_path / "spark" / path.name).symlink_to(path)
    (tmp_path / "spark-defaults.conf").write_text(LOGS.format(folder=(tmp_path / "log").as_uri()))
    spark_environment = {"PYTHONPATH": REPOSITORY, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark_environment |= {"SPARK_HOME": str(tmp_path / "spark"), "SPARK_CONF_DIR": str(tmp_path)}
    verified = subprocess.run(
        [*started, str(tmp_path / "history")],
        env={**os.environ, **spark_environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert verified.returncode == 0, verified.stderr
    assert "2 held" in verified.stdout
    (log,) = (tmp_path / "log").glob("**/*app-*")
    assert f'"spark.master":"{CLUSTER}"' in log.read_text()


def test_the_documentation_lists_the_libraries_that_workers_need() -> None:
    modules = "import sys, conformance.pipeline.results; print(*{module.partition('.')[0] for module in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", modules], capture_output=True, text=True, check=True)
    needed = {name for name in ran.stdout.split() if name in {canonical.replace("-", "_") for canonical in installed()}}
    listed = re.search(r"They need Python\s+\(`PYSPARK_PYTHON`\) with ([^.]+)\.", VERIFY.read_text("utf-8"))
    assert listed is not None
    own_or_spark = {"pulsar_conformance", "pyspark", "py4j", "typing_extensions"}
    assert needed - own_or_spark == set(re.split(r", | and ", listed[1].replace("\n", " ")))


def installed() -> set[str]:
    """The names of the distributions that this environment has."""
    return {distribution.metadata["Name"].lower() for distribution in metadata.distributions()}
