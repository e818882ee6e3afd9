"""The deviations from the family SERVE: what a broker owes its clients."""
