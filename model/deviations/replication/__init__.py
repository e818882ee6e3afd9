"""The deviations from document 001: replicated subscriptions."""
