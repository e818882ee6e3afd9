"""The proxy between clients and a broker: it records the commands on the wire and injects network faults."""
