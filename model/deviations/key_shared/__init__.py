"""The deviations from document 004: Key_Shared and draining hashes."""
