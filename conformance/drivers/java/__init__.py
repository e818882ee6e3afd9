"""The driver of Pulsar's Java client: one source, compiled once, run with the jars of any release."""
