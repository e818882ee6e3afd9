"""The machines on simulated brokers: no false alarm, no miss."""
