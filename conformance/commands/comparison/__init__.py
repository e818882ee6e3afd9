"""Compares brokers: replays of finds, since when a release has one, and whether one broker is worse than another."""
