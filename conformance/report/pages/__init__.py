"""The HTML page of a run, with its diagrams and plots."""
