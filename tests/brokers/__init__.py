"""Tests of brokers: installation, startup, settings, containers, running clusters."""
