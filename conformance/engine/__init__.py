"""The engine: runs machines against one broker within a budget, shortens violations, and emits events."""
