"""The Hypothesis machines, one per document, and their strategies: they choose operations and judge nothing."""
