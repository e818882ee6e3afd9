"""The deviations from document 002 (chunking), and of clients in how they acknowledge and nack."""
