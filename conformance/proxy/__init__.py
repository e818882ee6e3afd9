"""The proxy: between clients and a broker it records the commands on the wire, and does to them what networks do."""
