"""The clients of the tests of systems."""

from __future__ import annotations

from tests.clients.conftest import admin, namespace

__all__ = ["admin", "namespace"]
