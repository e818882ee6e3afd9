"""Performs what is specific to chunked messages."""
