"""Tests of obtaining releases."""
