"""The Hypothesis machines, one per document, and their strategies. They choose operations and judge nothing themselves."""
