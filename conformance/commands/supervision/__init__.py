"""Shared by the commands that run the engine: its process and supervision, interrupts, folders."""
