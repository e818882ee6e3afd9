"""Measures what lanes bring."""
