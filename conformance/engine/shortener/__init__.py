"""Shortens the history of a violation: first its recording with the model, then on the broker."""
