"""The engine: runs machines against one broker within a budget, keeps violations, makes them short, tells events."""
