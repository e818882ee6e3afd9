"""Tests of the soak and the recorder."""
