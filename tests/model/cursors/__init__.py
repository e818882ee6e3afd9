"""Tests of the model of acknowledgment and cursors."""
