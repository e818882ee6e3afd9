"""Tests of the pipeline: that it says of a history what its rules say, with Spark and without."""
