"""Tests of the HTML page."""
