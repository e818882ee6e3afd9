"""Clients of a Pulsar under test: our own on the binary protocol, the official one, and the admin interface."""
