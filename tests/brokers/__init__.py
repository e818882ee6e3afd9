"""Tests of brokers: obtaining, launching, settings, containers, running clusters."""
