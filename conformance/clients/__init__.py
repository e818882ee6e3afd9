"""Clients of the Pulsar under test: the wire client, pulsar-client, and the admin API."""
