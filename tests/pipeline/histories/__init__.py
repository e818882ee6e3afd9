"""Histories for the tests of the pipeline: random and sound ones, and anomalies to plant in them."""
