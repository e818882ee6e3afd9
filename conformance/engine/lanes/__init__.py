"""Lanes: processes that run rounds of machines in parallel on one broker, each on topics of its own."""
