"""The reference model of the five documents: executable, nondeterministic and pure.

One module per document, the rule catalogue, and the exploration of the state graph. Nothing here does I/O, waits,
reads a clock or draws a random number: given a state and what was observed, it says which states are still possible.
"""
