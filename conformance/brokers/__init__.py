"""Brokers: how the suite gets, starts, disturbs and stops a Pulsar."""
