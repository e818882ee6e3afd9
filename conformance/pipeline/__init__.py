"""The rules as invariants over histories of any length, decided on Spark.

``reading`` finds and examines the files, ``topic`` is one topic's events as columns, a module for each document holds
its invariants (one function each, evidence out), ``judging`` carries them over a DataFrame in one pass, and
``verdict`` makes verdicts of what came back. Importing this needs what ``make setup-spark`` installs.
"""
