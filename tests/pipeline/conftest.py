"""One Spark for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from conformance.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core; its memory is that of a laptop's smallest, and histories are small: few partitions do."""
    started = session("local[1]")
    started.conf.set("spark.sql.shuffle.partitions", 4)  # each of 200 that are empty takes some milliseconds, each time
    yield started
    started.stop()
