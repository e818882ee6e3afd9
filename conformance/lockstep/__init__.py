"""Lockstep: the same operations on the model and on a system, one after the other."""
