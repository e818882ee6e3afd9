"""The machines of the family SERVE."""
