"""The pipeline's Spark, for histories that were just recorded, and what the tests of systems reach the broker by."""

from __future__ import annotations

from tests.pipeline.conftest import spark
from tests.systems.conftest import admin, client

__all__ = ["admin", "client", "spark"]
