"""One Spark for all tests, and both engines of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from conformance.pipeline.local_engine import LocalEngine
from conformance.pipeline.session import session
from conformance.pipeline.spark_engine import SparkEngine
from conformance.pipeline.verdict import Engine


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core with little memory; histories are small, so few partitions are enough."""
    started = session("local[1]")
    started.conf.set("spark.sql.shuffle.partitions", 4)  # the default is 200, and each costs milliseconds even if empty
    yield started
    started.stop()


@pytest.fixture(params=["spark", "local"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine: their verdicts, and their sentences, are the same."""
    return SparkEngine(request.getfixturevalue("spark")) if request.param == "spark" else LocalEngine()
