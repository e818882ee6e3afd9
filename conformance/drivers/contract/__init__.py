"""The contract test of drivers, against a fake broker, without Pulsar."""
