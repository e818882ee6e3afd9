"""Tests of histories on disk."""
