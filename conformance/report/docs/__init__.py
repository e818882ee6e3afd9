"""The pages of the documentation that are generated."""
