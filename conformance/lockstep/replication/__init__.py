"""Performs operations on several clusters, and reads all of their logs back."""
