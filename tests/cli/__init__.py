"""Tests of the command line, on an engine that follows a script."""
