"""Deviations from document 000: deduplication."""
