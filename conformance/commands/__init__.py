"""The commands of ``pulsar-conformance``, without their command line, and the supervision of the engine."""
