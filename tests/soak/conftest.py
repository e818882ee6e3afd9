"""The pipeline's Spark, for histories that were just recorded, and what the tests of systems reach the broker by."""

from __future__ import annotations

from tests.clients.conftest import admin, client
from tests.pipeline.conftest import spark

__all__ = ["admin", "client", "spark"]
