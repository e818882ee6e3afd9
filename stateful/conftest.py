"""Loads the engine's plugin where the machines are collected: a project that does not run them does without."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register what runs the machines, here because only the outermost conftest may name plugins."""
    config.pluginmanager.import_plugin("conformance.engine.plugin")
