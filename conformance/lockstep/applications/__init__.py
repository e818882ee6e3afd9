"""Performs what sources, subscribers and programs do: processes that are killed."""
