"""Makes the option ``--broker`` known wherever pytest is started in this repository."""

pytest_plugins = ["conformance.pytest_plugin", "conformance.engine.plugin"]
