"""Immutable collections that states are made of."""
