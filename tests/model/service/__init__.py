"""The family SERVE in the model."""
