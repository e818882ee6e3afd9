"""The rules as invariants over histories of any length, decided on Spark.

``files`` finds and examines the files, ``topic`` is one topic's events as columns, a module for each document has
its invariants (one function each, which returns evidence), ``results`` applies them to a DataFrame in one pass, and
``verdict`` adds up the results. Importing this needs the packages of ``make setup-spark``.
"""
