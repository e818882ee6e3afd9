"""Tests of the reference model, its explorations and its observer."""
