"""One Spark for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from conformance.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core with little memory; histories are small, so few partitions are enough."""
    started = session("local[1]")
    started.conf.set("spark.sql.shuffle.partitions", 4)  # the default is 200, and each costs milliseconds even if empty
    yield started
    started.stop()
