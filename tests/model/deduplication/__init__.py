"""Tests of the model of document 000."""
