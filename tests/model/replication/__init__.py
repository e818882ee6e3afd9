"""Tests of the model of replicated subscriptions."""
