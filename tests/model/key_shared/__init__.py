"""Tests of the model of Key_Shared."""
