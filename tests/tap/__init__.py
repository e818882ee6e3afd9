"""Tests of the tap: applications that nobody changed, through it."""
