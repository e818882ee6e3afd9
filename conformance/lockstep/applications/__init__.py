"""Performs the operations of sources, subscribers and programs, which are killed as processes."""
