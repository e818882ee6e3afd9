"""Document 001: replicated subscriptions, and the snapshots that say which position here is which position there."""
