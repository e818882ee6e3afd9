"""The applications of document 000 as worker processes, which are killed with SIGKILL as real ones are.

Nothing here knows rules or judges anything.
"""
