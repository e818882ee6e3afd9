"""Makes the history of a violation short: first by what was recorded, then on the broker."""
