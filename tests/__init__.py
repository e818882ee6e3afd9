"""Tests of the suite itself, by room."""
