"""Histories for the tests of the pipeline: sound ones, and anomalies to plant in them."""
