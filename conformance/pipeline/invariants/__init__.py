"""The invariants, one function each, over the events of one topic."""
