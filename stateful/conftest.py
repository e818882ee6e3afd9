"""Loads the engine's plugin where pytest collects the machines, so other projects do not need it."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register what runs the machines, here because only the outermost conftest may name plugins."""
    config.pluginmanager.import_plugin("conformance.engine.plugin")
