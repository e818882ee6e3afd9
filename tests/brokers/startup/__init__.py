"""Tests of launching."""
