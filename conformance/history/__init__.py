"""Histories: what was done and seen, as data on disk that can be read, judged and replayed later."""
