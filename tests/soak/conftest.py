"""The pipeline's Spark for just recorded histories, and the clients of the tests of systems."""

from __future__ import annotations

from tests.clients.conftest import admin, client
from tests.pipeline.conftest import spark

__all__ = ["admin", "client", "spark"]
