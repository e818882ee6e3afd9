"""Tests of the wire client."""
