"""Lanes: processes that run rounds of machines side by side on one broker, each on topics of its own."""
