"""Reproducers that need no suite: a script of pulsar-client, and a program of the Java client, from a minimal history.

Both are made from one list of calls (:mod:`conformance.report.reproducer.calls`). ``history`` translates the steps of a
history into calls, ``promise`` turns what breaks the rule into the last call, and ``program`` writes the calls in each
language beside the functions of its template.
"""
