"""Performs the operations on chunked messages."""
