"""Performers for tests of the lockstep itself: a broker made of reference topics."""
