"""What stands behind the commands of ``pulsar-conformance``: their options, and the supervision of the engine."""
