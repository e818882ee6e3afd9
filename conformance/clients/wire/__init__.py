"""The suite's own client of Pulsar's binary protocol."""
