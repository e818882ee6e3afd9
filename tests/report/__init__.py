"""Tests of verdicts, words and reports."""
